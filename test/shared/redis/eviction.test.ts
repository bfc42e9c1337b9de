import { expect, test } from "vitest";
import { evictionThresholds, PAYMENTS_PART } from "../../../shared/redis/eviction.ts";

test("the eviction order is the same for every memory limit of webhooks: kept webhooks, answers, results, history; then payments are refused", () => {
  expect(evictionThresholds(0.85)).toEqual({
    ...{ kept: 0.65, answers: 0.675, results: 0.7 },
    history: expect.closeTo(0.7225),
  });
  for (const webhooks of [0.01, 0.2, 0.5, 0.8, 0.84, 0.9, 1]) {
    const { kept, answers, results, history } = evictionThresholds(webhooks);
    expect(kept).toBeLessThan(answers);
    expect(answers).toBeLessThan(results);
    expect(results).toBeLessThan(history);
    expect(history).toBeLessThan(PAYMENTS_PART * webhooks);
  }
});
