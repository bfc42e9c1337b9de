import { expect, test } from "vitest";
import { givesWayAbove, PAYMENTS_PART } from "../../../shared/redis/give-way.ts";

test("whatever part of maxmemory closes the webhooks gateway, kept webhooks give way below it, then answers, then results, then history, then payments are refused", () => {
  expect(givesWayAbove(0.85)).toEqual({
    ...{ kept: 0.65, answers: 0.675, results: 0.7 },
    history: expect.closeTo(0.7225),
  });
  for (const webhooks of [0.01, 0.2, 0.5, 0.8, 0.84, 0.9, 1]) {
    const { kept, answers, results, history } = givesWayAbove(webhooks);
    expect(kept).toBeLessThan(answers);
    expect(answers).toBeLessThan(results);
    expect(results).toBeLessThan(history);
    expect(history).toBeLessThan(PAYMENTS_PART * webhooks);
  }
});
