import { beforeAll, expect, test } from "vitest";
import { type Engine, usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { FAULTS } from "./faults.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine();
});

const pairs = FAULTS.flatMap((first, i) =>
  FAULTS.slice(i + 1)
    .filter(([, later]) => Object.keys(later)[0] !== Object.keys(first[1])[0])
    .map((later) => [first[0], later[0], { ...later[1], ...first[1] }, first[2], first[3]] as const),
);

test.each(pairs)(
  "a request with %s and %s is refused for the former",
  async (_, _later, both, code, details) => {
    expect(await engine.ask(wireRequest(both))).toEqual({ code, details: expect.stringMatching(details) });
  },
);
