import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { operateMany, type Selected, select } from "../../../shared/queue/operate.ts";
import { useFailedCalls, WHY } from "../../fixtures/failed-calls.ts";

const fixture = useFailedCalls();

const everything = { limit: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
const many = { why: WHY, concurrency: 4, onProgress: () => {} };

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
  expect((await fixture.audited()).map((entry) => entry["call_id"]).toSorted()).toEqual(ids.toSorted());
});

test("a bulk replay stops at the first error and says what remains", async () => {
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
