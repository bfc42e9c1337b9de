import { beforeEach, expect, test } from "vitest";
import type { RunWork } from "../../../../shared/console/runs/hold.ts";
import { OPEN_RUNS_MAX, RUN_KEPT_MS, RUNS_KEPT } from "../../../../shared/console/runs/run.ts";
import { createRunStore, type RunStore } from "../../../../shared/console/runs/store.ts";
import { type DoRun, type RunWorker, startRunWorker } from "../../../../shared/console/runs/worker.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { AppError } from "../../../../shared/platform/errors/app-error.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const ends = useEnds();
let store: RunStore;
beforeEach(async () => {
  await redis.client.flushdb();
  store = createRunStore(redis.partition);
});

const begin = (request: unknown = {}) => store.create({ kind: "count", by: "otto", request });
const actOn = (run: string, action: "cancel_run" | "resume_run") =>
  ({ at: 1, action, run, by: "alice", selection: "count" }) as const;
const stateOf = async (id: string) => (await store.find(id))?.state;

type Worker = RunWorker & { work: RunWork[] };

/** A worker whose runs are done as the test says. */
function startWorker(doRun: DoRun, options: { leaseMs?: number; atOnce?: number } = {}): Worker {
  const work: RunWork[] = [];
  const count: DoRun = (given) => {
    work.push(given);
    return doRun(given);
  };
  const { partition } = redis;
  const worker = startRunWorker({ partition, kinds: { count }, log: silentLogger, everyMs: 40, ...options });
  ends.defer(worker.stop);
  return { ...worker, work };
}

/** Work that goes on until it is to end. */
const endless: DoRun = ({ signal }) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

test("a run is taken once, done, and known with what it has told for a week", async () => {
  const done: DoRun = async ({ tell }) => tell({ counted: 3 });
  const [one, other] = [startWorker(done), startWorker(done)];
  const { id } = await begin({ what: "sheep" });
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(one.work.length + other.work.length).toBe(1);
  expect(await store.find(id)).toMatchObject({
    ...{
      kind: "count",
      by: "otto",
      request: { what: "sheep" },
      progress: { counted: 3 },
      isCancelling: false,
    },
    ...{ at: expect.any(Number), endedAt: expect.any(Number), failure: undefined },
  });
  expect(await redis.client.pttl(keys.run(id))).toBeGreaterThan(RUN_KEPT_MS - 60_000);
});

test("a run whose process falls silent is taken by another one, which goes on from what was told", async () => {
  const { id } = await begin();
  expect((await store.take("dead", 30, ["count"]))?.id).toBe(id);
  await store.hold(id, "dead", 30, { counted: 7 });
  const { work } = startWorker(async () => {});
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(work[0]?.run.progress).toEqual({ counted: 7 });
});

test("a process whose lease has lapsed, and that takes the run again, has lost what it did before", async () => {
  const { work, wake } = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => work.length === 1);
  await eventually("it is taken again", async () => {
    await redis.client.zadd(keys.openRuns, 0, id); // as if its lease had lapsed while Redis was away
    wake();
    return work.length > 1;
  });
  await eventually("the last goes on, and the others have lost it", () =>
    work.every(({ signal }, i) => signal.aborted === i < work.length - 1),
  );
});

test("a process that has lost its run to another one stops doing it, and writes nothing of it any more", async () => {
  const worker = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => worker.work.length === 1);
  await redis.client.hset(keys.run(id), "holder", "another");
  await eventually("it is given up", () => worker.work[0]?.signal.aborted === true);
  worker.work[0]?.tell({ counted: 99 });
  await worker.stop();
  expect(await store.find(id)).toMatchObject({ state: "running", progress: undefined });
});

test("a process that stops leaves its runs at once to another one", async () => {
  const worker = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => worker.work.length === 1);
  worker.work[0]?.tell({ counted: 5 });
  await worker.stop();
  expect(await store.find(id)).toMatchObject({ state: "waiting", progress: { counted: 5 } });
  const next = startWorker(async () => {});
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(next.work).toHaveLength(1);
});

test("a run is cancelled wherever it is: under way, or before anybody has taken it", async () => {
  const waiting = await begin();
  expect(await store.cancel(actOn(waiting.id, "cancel_run"))).toMatchObject({
    state: "waiting",
    isCancelling: true,
  });
  const worker = startWorker(endless);
  await eventually("it has ended", async () => (await stateOf(waiting.id)) === "cancelled");
  expect(worker.work).toEqual([]);
  const { id } = await begin();
  await eventually("it is under way", () => worker.work.length === 1);
  await store.cancel(actOn(id, "cancel_run"));
  await eventually("it has ended", async () => (await stateOf(id)) === "cancelled");
  expect(await store.cancel(actOn(id, "cancel_run"))).toMatchObject({
    state: "cancelled",
    isCancelling: false,
  });
});

test("what a run throws stops it with its code, and it can go on from there; a run that is done cannot", async () => {
  let fails = true;
  startWorker(async ({ tell }) => {
    tell({ counted: 1 });
    if (fails) throw new AppError("record.unreadable", { reason: "the record is damaged" });
  });
  const { id } = await begin();
  await eventually("it has stopped", async () => (await stateOf(id)) === "stopped");
  expect(await store.find(id)).toMatchObject({
    ...{ failure: { code: "record.unreadable", reason: "the record is damaged" }, progress: { counted: 1 } },
  });
  fails = false;
  // How far it is by now, nobody can tell.
  expect(await store.resume(actOn(id, "resume_run"))).toMatchObject({ failure: undefined });
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  await expect(store.resume(actOn(id, "resume_run"))).rejects.toMatchObject({ code: "run.not_resumable" });
});

test("a run that meets an absent Redis waits for it, and goes on", async () => {
  let tries = 0;
  startWorker(async () => {
    tries += 1;
    if (tries === 1) throw new Error("Connection is closed.");
  });
  const { id } = await begin();
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(tries).toBe(2);
});

test("so many runs may be open, and so many are known: the oldest that have ended go first", async () => {
  const open = await Promise.all(Array.from({ length: OPEN_RUNS_MAX }, () => begin()));
  await expect(begin()).rejects.toMatchObject({ code: "run.too_many" });
  startWorker(async () => {}, { atOnce: 50 });
  await eventually("all are done", async () => (await redis.client.zcard(keys.openRuns)) === 0);
  for (let i = 0; i < RUNS_KEPT; i++) {
    await eventually("there is room", async () => (await redis.client.zcard(keys.openRuns)) < OPEN_RUNS_MAX);
    await begin();
  }
  expect(await redis.client.zcard(keys.runs)).toBe(RUNS_KEPT);
  expect(await redis.client.exists(...open.map(({ id }) => keys.run(id)))).toBe(0);
  expect(await store.list("count")).toHaveLength(RUNS_KEPT);
});

test("a list has the newest of a kind, with what they have told if that is wanted, and reads nothing of others", async () => {
  const ids: string[] = [];
  for (const kind of ["count", "weigh", "count", "count", "weigh"])
    ids.push((await store.create({ kind, by: "otto", request: { kind } })).id);
  for (const [at, id] of ids.entries()) {
    await redis.client.zadd(keys.runs, at, id); // each begun in a ms of its own
    await redis.client.hset(keys.run(id), "progress", '{"counted":4}');
  }
  const newest = [ids[3], ids[2]].map((id) => ({ id, request: { kind: "count" }, progress: { counted: 4 } }));
  await redis.client.config("RESETSTAT");
  expect(await store.list("count", { limit: 2 })).toMatchObject(newest);
  // The kind of each, and two runs.
  const stats = await redis.client.info("commandstats");
  expect(stats).toContain("cmdstat_hget:calls=5,");
  expect(stats).toContain("cmdstat_hmget:calls=2,");
  for (const run of await store.list("count", { withProgress: false })) expect(run.progress).toBeUndefined();
});

test("how far a run is, is written when it has changed, and not with each renewal of the lease", async () => {
  const told = { counted: 1 };
  const doRun: DoRun = async (work) => {
    work.tell(told);
    await endless(work);
  };
  startWorker(doRun);
  const { id } = await begin();
  const isTold = async (counted: number) =>
    ((await store.find(id))?.progress as typeof told | undefined)?.counted === counted;
  await eventually("it has told", () => isTold(1));
  await redis.client.config("RESETSTAT");
  const stats = () => redis.client.info("commandstats");
  await eventually("the lease was renewed", async () => /cmdstat_zadd:calls=\d*[4-9],/.test(await stats()));
  expect(await stats()).not.toContain("cmdstat_hset:");
  told.counted = 2;
  await eventually("it has told again", () => isTold(2));
});

test("a run of a kind that is not known here is left to the processes that know it", async () => {
  const other = await store.create({ kind: "weigh", by: "otto", request: {} });
  expect(await store.take("here", 1000, ["count"])).toBeUndefined();
  expect(await store.list("count")).toEqual([]);
  expect(await store.list("weigh")).toMatchObject([{ id: other.id }]);
});
