import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import type { CallFilter } from "../../../shared/queue/failed.ts";
import { operateMany, select } from "../../../shared/queue/operate.ts";
import { useFailedCalls, WHY } from "../../fixtures/failed-calls.ts";

const fixture = useFailedCalls();

const everything = { limit: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
const many = { why: WHY, concurrency: 4, onProgress: () => {} };

const selected = async (filter: CallFilter) => {
  const ids: string[] = [];
  for await (const { id } of select(fixture.calls, filter, everything)) ids.push(id);
  return ids;
};

test("operators can replay and discard in a full Redis too, and the audit log has it", async () => {
  const [first = "", second = ""] = await fixture.fail([{}, {}]);
  const { client } = fixture.redis;
  await client.config("SET", "maxmemory", 1);
  try {
    expect(await fixture.replay(await fixture.find(first), WHY)).toBe("done");
    expect(await fixture.discard(await fixture.find(second), WHY)).toBe("done");
  } finally {
    await client.config("SET", "maxmemory", 0);
  }
  expect(await fixture.audited()).toMatchObject([
    { action: "replay", call_id: first },
    { action: "discard", call_id: second },
  ]);
});

test("an interrupted bulk replay that is continued replays each call exactly once", async () => {
  const ids = await fixture.fail(
    Array.from({ length: 60 }, (_, i) => ({ origin: i % 3 === 0 ? "x402" : "webhook" })),
  );
  // Each replayed call fails again at once. Only the filter's explicit end keeps it from being selected a second time.
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  const filter = { until: Date.now() };
  const stop = new AbortController();
  const first = await operateMany(select(fixture.calls, filter, everything), {
    ...many,
    total: 60,
    operate: fixture.replay,
    signal: stop.signal,
    onProgress: ({ done }) => done === 20 && stop.abort(),
  });
  expect(first.remaining).toBe(60 - first.done);
  expect(first.done).toBeLessThan(60);
  await fixture.untilFailed(60);
  expect(await selected(filter)).toHaveLength(first.remaining);
  await operateMany(select(fixture.calls, filter, everything), {
    ...{ ...many, total: first.remaining, operate: fixture.replay, signal: everything.signal },
  });
  await eventually("all were offered again", () => fixture.injected.length === 120);
  for (const id of ids) expect(fixture.offered(id)).toBe(2);
  expect((await fixture.audited()).map((entry) => entry["call_id"]).toSorted()).toEqual(ids.toSorted());
});

test("a bulk replay stops at the first error and says how many calls remain", async () => {
  await fixture.fail(Array.from({ length: 10 }, () => ({})));
  const ids = await selected({});
  const result = await operateMany(select(fixture.calls, {}, everything), {
    ...many,
    total: 10,
    concurrency: 1,
    signal: everything.signal,
    operate: async (call) => {
      if (call.id === ids[3]) throw new Error("Connection is closed.");
      return fixture.replay(call, WHY);
    },
  });
  expect(result).toMatchObject({
    ...{ done: 3, left: 0, remaining: 7, failure: { message: "Connection is closed." } },
  });
  expect((await selected({})).toSorted()).toEqual(ids.slice(3).toSorted());
});

test("a bulk replay counts calls that left between the count and the replay as left, and begins no more than were counted", async () => {
  const ids = await fixture.fail(Array.from({ length: 10 }, () => ({})));
  for (const id of ids.slice(0, 2)) await fixture.replay(await fixture.find(id), WHY);
  const given = { ...many, operate: fixture.replay, signal: everything.signal };
  const three = await operateMany(select(fixture.calls, {}, everything), { ...given, total: 3 });
  expect(three).toMatchObject({ done: 3, left: 0, remaining: 0 });
  const rest = await operateMany(select(fixture.calls, {}, everything), { ...given, total: 7 });
  expect(rest).toMatchObject({ done: 5, left: 2, remaining: 0, failure: undefined });
});

test("calls that an interrupted bulk replay has read but not begun count as remaining", async () => {
  await fixture.fail(Array.from({ length: 10 }, () => ({})));
  const stop = new AbortController();
  const result = await operateMany(select(fixture.calls, {}, { ...everything, signal: stop.signal }), {
    ...{ ...many, total: 10, signal: stop.signal, operate: fixture.replay },
    onProgress: () => stop.abort(),
  });
  expect(result.left).toBe(0);
  expect(result.remaining).toBe(await fixture.calls.count({}));
});

test("a bulk replay reads calls only when it begins them", async () => {
  await fixture.fail(Array.from({ length: 30 }, () => ({})));
  let read = 0;
  let ended = 0;
  const ahead: number[] = [];
  async function* counted() {
    for await (const call of select(fixture.calls, {}, everything)) {
      read += 1;
      ahead.push(read - ended);
      yield call;
    }
  }
  await operateMany(counted(), {
    ...{ ...many, total: 30, signal: everything.signal },
    operate: async (call) => {
      const operated = await fixture.replay(call, WHY);
      ended += 1;
      return operated;
    },
  });
  expect(ended).toBe(30);
  expect(Math.max(...ahead)).toBeLessThanOrEqual(many.concurrency);
});
