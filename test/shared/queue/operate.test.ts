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

test("a bulk replay that is interrupted and taken up again replays each call exactly once", async () => {
  const ids = await fixture.fail(
    Array.from({ length: 60 }, (_, i) => ({ origin: i % 3 === 0 ? "x402" : "webhook" })),
  );
  // Each fails again at once, so that only the explicit end of the range keeps it from being taken twice.
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

test("a bulk replay stops at the first error and says what remains", async () => {
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
