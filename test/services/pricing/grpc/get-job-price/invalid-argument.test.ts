import { status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { type Engine, usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { FAULTS } from "./faults.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine();
});

const invalid = FAULTS.filter(([, , code]) => code === status.INVALID_ARGUMENT);

test.each(invalid)(
  "a request with %s is refused as INVALID_ARGUMENT, and the answer names the field",
  async (_, fault, code, details) => {
    expect(await engine.ask(wireRequest(fault))).toEqual({ code, details: expect.stringMatching(details) });
  },
);
