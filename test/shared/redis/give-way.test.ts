import { expect, test } from "vitest";
import { givesWayAbove } from "../../../shared/redis/give-way.ts";

test("whatever part of maxmemory closes the gateways, answers give way below it, then results, then history", () => {
  expect(givesWayAbove(0.85)).toEqual({ answers: 0.75, results: 0.775, history: 0.8 });
  for (const newCalls of [0.01, 0.2, 0.5, 0.8, 0.84, 0.9, 1]) {
    const { answers, results, history } = givesWayAbove(newCalls);
    expect(answers).toBeLessThan(results);
    expect(results).toBeLessThan(history);
    expect(history).toBeLessThan(newCalls);
  }
});
