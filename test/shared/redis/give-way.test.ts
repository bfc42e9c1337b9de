import { expect, test } from "vitest";
import { givesWayAbove } from "../../../shared/redis/give-way.ts";

test("whatever part of maxmemory closes the gateways, answers give way below it, and history between the two", () => {
  expect(givesWayAbove(0.85)).toEqual({ answers: 0.75, history: 0.8 });
  for (const newCalls of [0.01, 0.2, 0.5, 0.8, 0.84, 0.9, 1]) {
    const { answers, history } = givesWayAbove(newCalls);
    expect(answers).toBeLessThan(history);
    expect(history).toBeLessThan(newCalls);
  }
});
