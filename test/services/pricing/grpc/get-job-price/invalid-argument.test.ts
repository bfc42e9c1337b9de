import { status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { type Engine, NOW_SECS, usePricing, type Wire, wireRequest } from "../../../../fixtures/pricing.ts";
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

/** Clients of the Rust engine tell its refusals apart by these words. */
test.each<[string, string, Partial<Wire>, string]>([
  ["a timestamp 31 s old", "too old", { challenge_timestamp: String(NOW_SECS - 31) }, "challenge_timestamp"],
  ["a timestamp 31 s ahead", "future", { challenge_timestamp: String(NOW_SECS + 31) }, "challenge_timestamp"],
  ["a proof of zeros", "proof of work", { proof_of_work: Buffer.alloc(48) }, "proof_of_work"],
  ["a proof of 47 bytes", "proof of work", { proof_of_work: Buffer.alloc(47) }, "proof_of_work"],
  ["no proof", "proof of work", { proof_of_work: Buffer.alloc(0) }, "proof_of_work"],
  ["the zero address", "non-zero", { requester: Buffer.alloc(20) }, "requester"],
  ["a requester of 21 bytes", "20-byte", { requester: Buffer.alloc(21, 1) }, "requester"],
  ["inputs_hash of 33 bytes", "32-byte", { inputs_hash: Buffer.alloc(33) }, "inputs_hash"],
])("the refusal of %s says %o", async (_, words, fault, field) => {
  const { details } = await engine.ask(wireRequest(fault));
  expect([details.split(":")[0], details]).toEqual([field, expect.stringContaining(words)]);
});
