import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { operateMany, type Selected, select } from "../../../shared/queue/operate.ts";
import { keys } from "../../../shared/redis/keys.ts";
import { useFailedCalls, WHY } from "../../fixtures/failed-calls.ts";

const fixture = useFailedCalls();

const everything = { limit: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
const many = { why: WHY, concurrency: 4, onProgress: () => {} };

async function injectedAre(ids: readonly string[]): Promise<void> {
  const states = async () => Promise.all(ids.map((id) => fixture.records.state(id)));
  await eventually("all are injected", async () => (await states()).every((state) => state === "INJECTED"));
}

/** Of the audit, who did what to which call. */
async function audited(): Promise<Record<string, string>[]> {
  const entries = await fixture.redis.client.xrange(keys.audit, "-", "+");
  return entries.map(([, flat]) =>
    Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""]] : []))),
  );
}

test("a replayed call has all its attempts again under the same key, however often it failed and replayed", async () => {
  const [id = ""] = await fixture.fail([{}], "runner.failed");
  expect(fixture.offered(id)).toBe(fixture.attempts);
  fixture.runnerAnswers("runner.failed");
  await fixture.startProducer();
  for (const round of [2, 3]) {
    expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
    await eventually(
      "failed again",
      async () => fixture.offered(id) === round * fixture.attempts && fixture.calls.find(id),
    );
    expect(await fixture.records.state(id)).toBe("FAILED");
    expect((await fixture.find(id)).attempts).toBe(fixture.attempts);
  }
  fixture.runnerAnswers();
  expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
  await injectedAre([id]);
  expect(fixture.offered(id)).toBe(3 * fixture.attempts + 1);
  expect(await fixture.calls.find(id)).toBeUndefined();
});

test("of concurrent replays one moves the call, the others say that it left, and it runs once", async () => {
  const ids = await fixture.fail(Array.from({ length: 20 }, () => ({})));
  await fixture.startProducer();
  const outcomes = await Promise.all(
    ids.map(async (id) => {
      const failed = await fixture.find(id);
      return Promise.all([
        fixture.replay(failed, WHY),
        fixture.replay(failed, WHY),
        fixture.replay(failed, WHY),
      ]);
    }),
  );
  for (const three of outcomes) expect(three.toSorted()).toEqual(["done", "left", "left"]);
  await injectedAre(ids);
  for (const id of ids) expect(fixture.offered(id)).toBe(2);
  expect(await audited()).toHaveLength(20);
});

test("a replay that dies after its first step leaves the call listed, and the next replay runs it once", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await createFailedRecords(fixture.redis.client).replaying(await fixture.find(id), Date.now())).toBe(
    true,
  );
  await fixture.startProducer();
  expect(await fixture.calls.count({})).toBe(1);
  expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
  await injectedAre([id]);
  expect(fixture.offered(id)).toBe(2);
});

test("a replay that dies after the move leaves a call that runs", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.replay(await fixture.find(id), WHY);
  expect(await fixture.records.state(id)).toBe("QUEUED");
  await fixture.startProducer();
  await injectedAre([id]);
});

test("a replayed call waits from its replay on, and nothing of it is left once it was injected", async () => {
  const yesterday = Date.now() - 86_400_000;
  const ids = await fixture.fail(
    Array.from({ length: 30 }, (_, i) => ({ acceptedAt: yesterday, claimed: i % 2 === 0 })),
  );
  const before = Date.now();
  for (const id of ids.slice(0, 5)) await fixture.replay(await fixture.find(id), WHY);
  const [, oldest] = await fixture.redis.client.zrange(keys.since("webhook"), "0", "0", "WITHSCORES");
  expect(Number(oldest)).toBeGreaterThanOrEqual(before);
  await fixture.startProducer();
  for (const id of ids.slice(5)) await fixture.replay(await fixture.find(id), WHY);
  await injectedAre(ids);
  expect(await fixture.redis.client.zcard(keys.since("webhook"))).toBe(0);
});

test("a call failed anew since it was looked at is not replayed by that look", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const look = await fixture.find(id);
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  await fixture.replay(look, WHY);
  await eventually("failed again", async () => fixture.offered(id) === 2 && fixture.calls.find(id));
  expect(await fixture.replay(look, WHY)).toBe("left");
  expect(fixture.offered(id)).toBe(2);
});

test("a bulk replay that is interrupted and taken up again replays each call exactly once", async () => {
  const ids = await fixture.fail(
    Array.from({ length: 60 }, (_, i) => ({ origin: i % 3 === 0 ? "x402" : "webhook" })),
  );
  // Each fails again at once, so that only the explicit end of the range keeps it from being taken twice.
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  const filter = { until: Date.now() };
  const stop = new AbortController();
  const first = await operateMany(await select(fixture.calls, filter, everything), {
    ...many,
    operate: fixture.replay,
    signal: stop.signal,
    onProgress: ({ done }) => done === 20 && stop.abort(),
  });
  expect(first.remaining).toHaveLength(60 - first.done);
  expect(first.done).toBeLessThan(60);
  await fixture.untilFailed(60);
  const rest = await select(fixture.calls, filter, everything);
  expect(rest.map(({ id }) => id).toSorted()).toEqual(first.remaining.map(({ id }) => id).toSorted());
  await operateMany(rest, { ...many, operate: fixture.replay, signal: everything.signal });
  await eventually("all were offered again", () => fixture.injected.length === 120);
  for (const id of ids) expect(fixture.offered(id)).toBe(2);
  expect((await audited()).map((entry) => entry["call_id"]).toSorted()).toEqual(ids.toSorted());
});

test("a bulk run stops at the first error and says what remains", async () => {
  await fixture.fail(Array.from({ length: 10 }, () => ({})));
  const selected = await select(fixture.calls, {}, everything);
  const result = await operateMany(selected, {
    ...many,
    concurrency: 1,
    signal: everything.signal,
    operate: async (call) => {
      if (call.id === (selected[3] as Selected).id) throw new Error("Connection is closed.");
      return fixture.replay(call, WHY);
    },
  });
  expect(result).toMatchObject({ done: 3, left: 0, failure: { message: "Connection is closed." } });
  expect(result.remaining.map(({ id }) => id)).toEqual(selected.slice(3).map(({ id }) => id));
});

test("the audit has one line for every replayed and every discarded call, and so has the log", async () => {
  const [a = "", b = ""] = await fixture.fail([{}, { claimed: false }]);
  const [lookA, lookB] = [await fixture.find(a), await fixture.find(b)];
  await fixture.replay(lookA, { selection: "--code runner.refused" });
  await fixture.replay(lookA, { selection: "--all" });
  await fixture.discard(lookB, { selection: "by id", reason: "a test call" });
  expect(await audited()).toEqual([
    {
      at: expect.any(String),
      action: "replay",
      call_id: a,
      by: "tester@fixture",
      selection: "--code runner.refused",
    },
    {
      ...{ at: expect.any(String), action: "discard", call_id: b, by: "tester@fixture", selection: "by id" },
      reason: "a test call",
    },
  ]);
  const logged = fixture.log.events.filter(({ event }) => /replayed|discarded/.test(event));
  expect(logged.map(({ event, fields }) => [event, fields["callId"]])).toEqual([
    ["call.replayed", a],
    ["call.discarded", b],
  ]);
});
