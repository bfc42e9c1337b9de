import { status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { type Engine, usePricing, type Wire, wireRequest } from "../../../../fixtures/pricing.ts";
import { send } from "../../../../support/http.ts";
import { expectRefused, post } from "./quote-request.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine();
});

test.each<[string, Partial<Wire>]>([
  ["the zero address as requester", { requester: Buffer.alloc(20) }],
  ["no inputs_hash", { inputs_hash: Buffer.alloc(0) }],
  ["no timestamp", { challenge_timestamp: "0" }],
  ["a proof without work", { proof_of_work: Buffer.alloc(48) }],
  ["a job index of 256", { job_index: 256 }],
])("a request over HTTP with %s is refused with 400, in the words of gRPC", async (_, fault) => {
  const expected = { status: 400, code: "pricing.request_invalid", grpc: status.INVALID_ARGUMENT };
  await expectRefused(engine, wireRequest(fault), expected);
});

test.each<[string, object, RegExp]>([
  ["no field at all", {}, /^requester: must be 20 bytes/],
  ["an unknown field", { nonce: 1 }, /^nonce: /],
  ["hex without 0x", { requester: "00" }, /^requester: /],
  ["half a byte", { requester: "0x123" }, /^requester: /],
  ["bytes as a list", { inputs_hash: [1] }, /^inputs_hash: /],
  ["a negative time", { challenge_timestamp: -1 }, /^challenge_timestamp: /],
  ["a padded time", { challenge_timestamp: "01700000000" }, /^challenge_timestamp: /],
  ["a time beyond 2^64-1", { challenge_timestamp: "18446744073709551616" }, /^challenge_timestamp: /],
  ["a time of which a double keeps only a part", { challenge_timestamp: 2 ** 60 }, /^challenge_timestamp: /],
  ["a flag as text", { require_tee: "no" }, /^require_tee: /],
  ["a list in place of an object", [], /^body: /],
])("a JSON request with %s is refused with 400, which names the field", async (_, json, detail) => {
  const answer = await post(engine, wireRequest(), json);
  expect(answer.status).toBe(400);
  expect(answer.json()).toMatchObject({
    code: "pricing.request_invalid",
    detail: expect.stringMatching(detail),
  });
});

test.each([
  ["is not JSON", "{", "body: is not JSON in UTF-8"],
  ["is too deep to be parsed", "[".repeat(65), "body: is nested more than 64 deep"],
])("a request for a quote whose body %s is refused with 400", async (_what, body, detail) => {
  const broken = await send(engine.http.address, { path: "/pricing/jobs/42/3/quote", body });
  expect(broken.json()).toMatchObject({ status: 400, code: "pricing.request_invalid", detail });
});
