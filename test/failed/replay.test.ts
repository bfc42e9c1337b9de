import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../shared/dev/wait.ts";
import { createFailedRecords } from "../../shared/queue/call-record.ts";
import { operateMany, type Selected, select } from "../../shared/queue/operate.ts";
import { keys } from "../../shared/redis/keys.ts";
import { type Lab, startLab, WHY } from "./failed-lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterEach(() => lab.clear());
afterAll(() => lab.stop());

const everything = { limit: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
const many = { why: WHY, concurrency: 4, onProgress: () => {} };

async function injectedAre(ids: readonly string[]): Promise<void> {
  const states = async () => Promise.all(ids.map((id) => lab.records.state(id)));
  await eventually("all are injected", async () => (await states()).every((state) => state === "INJECTED"));
}

/** Of the audit, who did what to which call. */
async function audited(): Promise<Record<string, string>[]> {
  const entries = await lab.redis.xrange(keys.audit, "-", "+");
  return entries.map(([, flat]) =>
    Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""]] : []))),
  );
}

test("a replayed call has all its attempts again under the same key, however often it failed and replayed", async () => {
  const [id = ""] = await lab.fail([{}], "runner.failed");
  expect(lab.offered(id)).toBe(lab.attempts);
  lab.runnerAnswers("runner.failed");
  await lab.startProducer();
  for (const round of [2, 3]) {
    expect(await lab.replay(await lab.find(id), WHY)).toBe("done");
    await eventually(
      "failed again",
      async () => lab.offered(id) === round * lab.attempts && lab.calls.find(id),
    );
    expect(await lab.records.state(id)).toBe("FAILED");
    expect((await lab.find(id)).attempts).toBe(lab.attempts);
  }
  lab.runnerAnswers();
  expect(await lab.replay(await lab.find(id), WHY)).toBe("done");
  await injectedAre([id]);
  expect(lab.offered(id)).toBe(3 * lab.attempts + 1);
  expect(await lab.calls.find(id)).toBeUndefined();
});

test("of concurrent replays one moves the call, the others say that it left, and it runs once", async () => {
  const ids = await lab.fail(Array.from({ length: 20 }, () => ({})));
  await lab.startProducer();
  const outcomes = await Promise.all(
    ids.map(async (id) => {
      const failed = await lab.find(id);
      return Promise.all([lab.replay(failed, WHY), lab.replay(failed, WHY), lab.replay(failed, WHY)]);
    }),
  );
  for (const three of outcomes) expect(three.toSorted()).toEqual(["done", "left", "left"]);
  await injectedAre(ids);
  for (const id of ids) expect(lab.offered(id)).toBe(2);
  expect(await audited()).toHaveLength(20);
});

test("a replay that dies after its first step leaves the call listed, and the next replay runs it once", async () => {
  const [id = ""] = await lab.fail([{}]);
  expect(await createFailedRecords(lab.redis).replaying(await lab.find(id), Date.now())).toBe(true);
  await lab.startProducer();
  expect(await lab.calls.count({})).toBe(1);
  expect(await lab.replay(await lab.find(id), WHY)).toBe("done");
  await injectedAre([id]);
  expect(lab.offered(id)).toBe(2);
});

test("a replay that dies after the move leaves a call that runs", async () => {
  const [id = ""] = await lab.fail([{}]);
  await lab.replay(await lab.find(id), WHY);
  expect(await lab.records.state(id)).toBe("QUEUED");
  await lab.startProducer();
  await injectedAre([id]);
});

test("a replayed call waits from its replay on, and nothing of it is left once it was injected", async () => {
  const yesterday = Date.now() - 86_400_000;
  const ids = await lab.fail(
    Array.from({ length: 30 }, (_, i) => ({ acceptedAt: yesterday, claimed: i % 2 === 0 })),
  );
  const before = Date.now();
  for (const id of ids.slice(0, 5)) await lab.replay(await lab.find(id), WHY);
  const [, oldest] = await lab.redis.zrange(keys.since("webhook"), "0", "0", "WITHSCORES");
  expect(Number(oldest)).toBeGreaterThanOrEqual(before);
  await lab.startProducer();
  for (const id of ids.slice(5)) await lab.replay(await lab.find(id), WHY);
  await injectedAre(ids);
  expect(await lab.redis.zcard(keys.since("webhook"))).toBe(0);
});

test("a call failed anew since it was looked at is not replayed by that look", async () => {
  const [id = ""] = await lab.fail([{}]);
  const look = await lab.find(id);
  lab.runnerAnswers("runner.refused");
  await lab.startProducer();
  await lab.replay(look, WHY);
  await eventually("failed again", async () => lab.offered(id) === 2 && lab.calls.find(id));
  expect(await lab.replay(look, WHY)).toBe("left");
  expect(lab.offered(id)).toBe(2);
});

test("a bulk replay that is interrupted and taken up again replays each call exactly once", async () => {
  const ids = await lab.fail(
    Array.from({ length: 60 }, (_, i) => ({ origin: i % 3 === 0 ? "x402" : "webhook" })),
  );
  // Each fails again at once, so that only the explicit end of the range keeps it from being taken twice.
  lab.runnerAnswers("runner.refused");
  await lab.startProducer();
  const filter = { until: Date.now() };
  const stop = new AbortController();
  const first = await operateMany(await select(lab.calls, filter, everything), {
    ...many,
    operate: lab.replay,
    signal: stop.signal,
    onProgress: ({ done }) => done === 20 && stop.abort(),
  });
  expect(first.remaining).toHaveLength(60 - first.done);
  expect(first.done).toBeLessThan(60);
  await lab.untilFailed(60);
  const rest = await select(lab.calls, filter, everything);
  expect(rest.map(({ id }) => id).toSorted()).toEqual(first.remaining.map(({ id }) => id).toSorted());
  await operateMany(rest, { ...many, operate: lab.replay, signal: everything.signal });
  await eventually("all were offered again", () => lab.injected.length === 120);
  for (const id of ids) expect(lab.offered(id)).toBe(2);
  expect((await audited()).map((entry) => entry["call_id"]).toSorted()).toEqual(ids.toSorted());
});

test("a bulk run stops at the first error and says what remains", async () => {
  await lab.fail(Array.from({ length: 10 }, () => ({})));
  const selected = await select(lab.calls, {}, everything);
  const result = await operateMany(selected, {
    ...many,
    concurrency: 1,
    signal: everything.signal,
    operate: async (call) => {
      if (call.id === (selected[3] as Selected).id) throw new Error("Connection is closed.");
      return lab.replay(call, WHY);
    },
  });
  expect(result).toMatchObject({ done: 3, left: 0, failure: { message: "Connection is closed." } });
  expect(result.remaining.map(({ id }) => id)).toEqual(selected.slice(3).map(({ id }) => id));
});

test("the audit has one line for every replayed and every discarded call, and so has the log", async () => {
  const [a = "", b = ""] = await lab.fail([{}, { claimed: false }]);
  const [lookA, lookB] = [await lab.find(a), await lab.find(b)];
  await lab.replay(lookA, { selection: "--code runner.refused" });
  await lab.replay(lookA, { selection: "--all" });
  await lab.discard(lookB, { selection: "by id", reason: "a test call" });
  expect(await audited()).toEqual([
    {
      at: expect.any(String),
      action: "replay",
      call_id: a,
      by: "tester@lab",
      selection: "--code runner.refused",
    },
    {
      ...{ at: expect.any(String), action: "discard", call_id: b, by: "tester@lab", selection: "by id" },
      reason: "a test call",
    },
  ]);
  const logged = lab.log.events.filter(({ event }) => /replayed|discarded/.test(event));
  expect(logged.map(({ event, fields }) => [event, fields["callId"]])).toEqual([
    ["call.replayed", a],
    ["call.discarded", b],
  ]);
});
