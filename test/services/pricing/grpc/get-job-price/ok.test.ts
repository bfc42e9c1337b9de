import { status } from "@grpc/grpc-js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { toResponse } from "../../../../../services/pricing/grpc.ts";
import { recoverAddress } from "../../../../../shared/ethereum/signatures.ts";
import { type JobQuote, jobQuoteDigest } from "../../../../../shared/pricing/job-quote.ts";
import { solve } from "../../../../../shared/pricing/proof-of-work.ts";
import {
  INPUTS,
  NOW_SECS,
  OPERATOR,
  REQUESTER,
  SEPARATOR,
  toQuote,
  usePricing,
  wireRequest,
} from "../../../../fixtures/pricing.ts";

const pricing = usePricing();

const hex = (bytes: unknown) => `0x${Buffer.from(bytes as Buffer).toString("hex")}` as const;

test("a client that knows the engine only by reflection gets a quote, every field of it", async () => {
  const engine = await pricing.engine();
  const request = wireRequest();
  const { code, response } = await engine.ask(request);
  expect(code).toBe(status.OK);
  expect(response).toEqual({
    quote_details: {
      service_id: "42",
      job_index: 3,
      price: Buffer.from(`${"0".repeat(48)}0de0b6b3a7640000`, "hex"),
      timestamp: String(NOW_SECS),
      expiry: String(NOW_SECS + 300),
      confidentiality: 0,
      requester: REQUESTER,
      inputs_hash: INPUTS,
    },
    signature: expect.any(Buffer),
    operator_id: Buffer.from(OPERATOR.slice(2), "hex"),
    proof_of_work: request.proof_of_work,
    settlement_options: [],
    x402_endpoint: "",
    tee_attested: false,
    tee_provider: "",
  });
});

test("the signature of a quote recovers the operator_id from what the client was told, and from nothing else", async () => {
  const engine = await pricing.engine();
  const { response = {} } = await engine.ask(wireRequest({ job_index: 255 }));
  const quote = toQuote(response);
  const signature = response["signature"] as Buffer;
  expect(signature).toHaveLength(65);
  expect([27, 28]).toContain(signature[64]);
  expect(recoverAddress(jobQuoteDigest(SEPARATOR, quote), hex(signature))).toBe(hex(response["operator_id"]));
  const dearer = { ...quote, priceWei: quote.priceWei - 1n };
  expect(recoverAddress(jobQuoteDigest(SEPARATOR, dearer), hex(signature))).not.toBe(OPERATOR);
});

test("what is signed for service 42, job 3, at 1e18 wei, until an hour later, is the known answer", async () => {
  const engine = await pricing.engine({ quoteTtlSecs: 3600, powDifficulty: 20 });
  const proof_of_work = solve({ serviceId: 42n, timestamp: BigInt(NOW_SECS) }, 20);
  const { response = {} } = await engine.ask(wireRequest({ proof_of_work }));
  const digest = Buffer.from("9bd02b8b280e84cda6136def5cae3eb19e0c5ab5bd4619a0cad56bc2c4f15a11", "hex");
  expect(recoverAddress(digest, hex(response["signature"]))).toBe(OPERATOR);
  expect((response["proof_of_work"] as Buffer).readBigUInt64LE(40)).toBe(220_500n);
});

test("the life of a quote is clamped to the longest there may be", async () => {
  const engine = await pricing.engine({ quoteTtlSecs: 300, maxQuoteAgeSecs: 60 });
  const { response = {} } = await engine.ask(wireRequest());
  expect(response["quote_details"]).toMatchObject({ expiry: String(NOW_SECS + 60) });
});

test.each([
  ["30 s old", -30],
  ["30 s ahead", 30],
])("a request whose timestamp is %s gets a quote", async (_, off) => {
  const engine = await pricing.engine();
  const request = wireRequest({ challenge_timestamp: String(NOW_SECS + off) });
  expect(await engine.ask(request)).toMatchObject({ code: status.OK });
});

test("any price is written as 32 bytes, big-endian", () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 2n ** 256n - 1n), (priceWei) => {
      const quote = {
        ...{ requester: OPERATOR, serviceId: 1n, jobIndex: 1, priceWei, timestamp: 1n, expiry: 2n },
        ...{ confidentiality: 0, inputsHash: hex(INPUTS) },
      } as JobQuote;
      const answer = { signed: { quote, signature: "0x" as const }, operator: OPERATOR as `0x${string}` };
      const { price } = toResponse({
        ...answer,
        proofOfWork: Buffer.alloc(48),
        settlement: undefined,
      }).quote_details;
      expect(price).toHaveLength(32);
      expect([...price].reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)).toBe(priceWei);
    }),
  );
});
