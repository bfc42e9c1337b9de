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
import { onlyInLongRun } from "../../../support/long-run.ts";

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

/** Starts a worker that does its runs with the test's function. */
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

/** Work that continues until its signal aborts. */
const endless: DoRun = ({ signal }) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

test("a run is taken once and done, and its progress is known for a week", async () => {
  const done: DoRun = async ({ storeProgressSoon }) => storeProgressSoon({ counted: 3 });
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

test("a run whose process falls silent is taken by another process, which continues from the stored progress", async () => {
  const { id } = await begin();
  expect((await store.take("dead", 30, ["count"]))?.id).toBe(id);
  await store.hold(id, "dead", 30, { counted: 7 });
  const { work } = startWorker(async () => {});
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(work[0]?.run.progress).toEqual({ counted: 7 });
});

test("a process whose lease expired has lost its earlier work, even if it takes the run again itself", async () => {
  const { work, wake } = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => work.length === 1);
  await eventually("it is taken again", async () => {
    await redis.client.zadd(keys.openRuns, 0, id); // as if its lease had expired while Redis was unavailable
    wake();
    return work.length > 1;
  });
  await eventually("the last goes on, and the others have lost it", () =>
    work.every(({ signal }, i) => signal.aborted === i < work.length - 1),
  );
});

test("a process that has lost its run to another process stops doing it, and writes nothing about it", async () => {
  const worker = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => worker.work.length === 1);
  await redis.client.hset(keys.run(id), "holder", "another");
  await eventually("it is given up", () => worker.work[0]?.signal.aborted === true);
  worker.work[0]?.storeProgressSoon({ counted: 99 });
  await worker.stop();
  expect(await store.find(id)).toMatchObject({ state: "running", progress: undefined });
});

test("a process that stops leaves its runs at once to other processes", async () => {
  const worker = startWorker(endless, { leaseMs: 60_000 });
  const { id } = await begin();
  await eventually("it is under way", () => worker.work.length === 1);
  worker.work[0]?.storeProgressSoon({ counted: 5 });
  await worker.stop();
  expect(await store.find(id)).toMatchObject({ state: "waiting", progress: { counted: 5 } });
  const next = startWorker(async () => {});
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(next.work).toHaveLength(1);
});

test("a run can be cancelled while a process does it, and before any process has taken it", async () => {
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

test("an error of a run stops it with the error's code, and the run can be resumed; a finished run cannot", async () => {
  let fails = true;
  startWorker(async ({ storeProgressSoon }) => {
    storeProgressSoon({ counted: 1 });
    if (fails) throw new AppError("record.unreadable", { reason: "the record is damaged" });
  });
  const { id } = await begin();
  await eventually("it has stopped", async () => (await stateOf(id)) === "stopped");
  expect(await store.find(id)).toMatchObject({
    ...{ failure: { code: "record.unreadable", reason: "the record is damaged" }, progress: { counted: 1 } },
  });
  fails = false;
  // The state depends on how far the worker is, so only the failure is checked.
  expect(await store.resume(actOn(id, "resume_run"))).toMatchObject({ failure: undefined });
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  await expect(store.resume(actOn(id, "resume_run"))).rejects.toMatchObject({ code: "run.not_resumable" });
});

test("a run whose Redis becomes unavailable waits for it, and continues", async () => {
  let tries = 0;
  startWorker(async () => {
    tries += 1;
    if (tries === 1) throw new Error("Connection is closed.");
  });
  const { id } = await begin();
  await eventually("it is done", async () => (await stateOf(id)) === "done");
  expect(tries).toBe(2);
});

onlyInLongRun(() => {
  test("the numbers of open runs and of stored runs are limited: the oldest ended runs are removed first", async () => {
    const open = await Promise.all(Array.from({ length: OPEN_RUNS_MAX }, () => begin()));
    await expect(begin()).rejects.toMatchObject({ code: "run.too_many" });
    startWorker(async () => {}, { atOnce: 50 });
    await eventually("all are done", async () => (await redis.client.zcard(keys.openRuns)) === 0);
    for (let i = 0; i < RUNS_KEPT; i++) {
      await eventually(
        "there is room",
        async () => (await redis.client.zcard(keys.openRuns)) < OPEN_RUNS_MAX,
      );
      await begin();
    }
    expect(await redis.client.zcard(keys.runs)).toBe(RUNS_KEPT);
    expect(await redis.client.exists(...open.map(({ id }) => keys.run(id)))).toBe(0);
    expect(await store.list("count")).toHaveLength(RUNS_KEPT);
  });
});

test("a list has the newest runs of a kind, with their progress on request, and reads no others", async () => {
  const ids: string[] = [];
  for (const kind of ["count", "weigh", "count", "count", "weigh"])
    ids.push((await store.create({ kind, by: "otto", request: { kind } })).id);
  for (const [at, id] of ids.entries()) {
    await redis.client.zadd(keys.runs, at, id); // each run begins in its own millisecond
    await redis.client.hset(keys.run(id), "progress", '{"counted":4}');
  }
  const newest = [ids[3], ids[2]].map((id) => ({ id, request: { kind: "count" }, progress: { counted: 4 } }));
  await redis.client.config("RESETSTAT");
  expect(await store.list("count", { limit: 2 })).toMatchObject(newest);
  // The list reads the kind of each run, and two complete runs.
  const stats = await redis.client.info("commandstats");
  expect(stats).toContain("cmdstat_hget:calls=5,");
  expect(stats).toContain("cmdstat_hmget:calls=2,");
  for (const run of await store.list("count", { withProgress: false })) expect(run.progress).toBeUndefined();
});

test("progress is written when it has changed, and not with each renewal of the lease", async () => {
  const told = { counted: 1 };
  const doRun: DoRun = async (work) => {
    work.storeProgressSoon(told);
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

test("a run of an unknown kind is left to the processes that know it", async () => {
  const other = await store.create({ kind: "weigh", by: "otto", request: {} });
  expect(await store.take("here", 1000, ["count"])).toBeUndefined();
  expect(await store.list("count")).toEqual([]);
  expect(await store.list("weigh")).toMatchObject([{ id: other.id }]);
});
