import { fileURLToPath } from "node:url";
import { status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toResponse } from "../../services/pricing/grpc.ts";
import { createPricingService } from "../../services/pricing/pricing.ts";
import { PROTO_OPTIONS, pricingEngineProto } from "../../services/pricing/pricing-engine-proto.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { recoverAddress } from "../../shared/ethereum/signatures.ts";
import { type JobQuote, jobQuoteDigest } from "../../shared/pricing/job-quote.ts";
import { solve } from "../../shared/pricing/proof-of-work.ts";
import {
  DIFFICULTY,
  DOMAIN,
  ENGINE,
  type Engine,
  INPUTS,
  KEY,
  NOW_SECS,
  OPERATOR,
  REQUESTER,
  SEPARATOR,
  startEngine,
  toQuote,
  type Wire,
  wireRequest,
} from "./pricing-fixture.ts";

let redis: PrivateRedis;
let engine: Engine;
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  engine = await startEngine({ redisUrl: redis.url });
});
afterAll(async () => {
  await engine.close();
  await redis.stop();
});

type Field = { number: number; name: string; type: string; label: string; typeName: string };

const hex = (bytes: unknown) => `0x${Buffer.from(bytes as Buffer).toString("hex")}` as const;

describe("a client that knows the engine only by reflection", () => {
  test("finds the engine and health", async () => {
    expect(await engine.client.services()).toEqual(expect.arrayContaining([ENGINE, "grpc.health.v1.Health"]));
  });

  test("is told the number and the type of every field", async () => {
    const described = await engine.client.describe(ENGINE);
    const fieldsOf = (message: string) => {
      const { type } = described[`pricing_engine.${message}`] as unknown as { type: { field: Field[] } };
      return type.field.map(({ number, name, type, label, typeName }) =>
        [
          ...[number, name, type.replace("TYPE_", "").toLowerCase()],
          ...(typeName ? [typeName] : []),
          ...(label === "LABEL_REPEATED" ? ["repeated"] : []),
        ].join(" "),
      );
    };
    expect(fieldsOf("GetJobPriceRequest")).toEqual([
      "1 service_id uint64",
      "2 job_index uint32",
      "3 proof_of_work bytes",
      "4 challenge_timestamp uint64",
      "5 require_tee bool",
      "6 requester bytes",
      "7 inputs_hash bytes",
    ]);
    expect(fieldsOf("GetJobPriceResponse")).toEqual([
      "1 quote_details message JobQuoteDetails",
      "2 signature bytes",
      "3 operator_id bytes",
      "4 proof_of_work bytes",
      "5 settlement_options message SettlementOption repeated",
      "6 x402_endpoint string",
      "7 tee_attested bool",
      "8 tee_provider string",
    ]);
    expect(fieldsOf("JobQuoteDetails")).toEqual([
      "1 service_id uint64",
      "2 job_index uint32",
      "3 price bytes",
      "4 timestamp uint64",
      "5 expiry uint64",
      "6 confidentiality uint32",
      "7 requester bytes",
      "8 inputs_hash bytes",
    ]);
    expect(fieldsOf("SettlementOption")).toEqual(
      ["network", "asset", "symbol", "amount", "pay_to", "scheme"].map(
        (name, i) => `${i + 1} ${name} string`,
      ),
    );
  });

  test("gets a quote, every field of it", async () => {
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

  test("can verify whose it is: the signature over what it was told recovers operator_id", async () => {
    const { response = {} } = await engine.ask(wireRequest({ job_index: 255 }));
    const quote = toQuote(response);
    const signature = response["signature"] as Buffer;
    expect(signature).toHaveLength(65);
    expect([27, 28]).toContain(signature[64]);
    expect(recoverAddress(jobQuoteDigest(SEPARATOR, quote), hex(signature))).toBe(
      hex(response["operator_id"]),
    );
    const dearer = { ...quote, priceWei: quote.priceWei - 1n };
    expect(recoverAddress(jobQuoteDigest(SEPARATOR, dearer), hex(signature))).not.toBe(OPERATOR);
  });

  test("is refused more than 16 KiB", async () => {
    const { code } = await engine.ask(wireRequest({ inputs_hash: Buffer.alloc(17_000) }));
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
  });
});

test("the known answer: what is signed for service 42, job 3, at 1e18 wei, until an hour later", async () => {
  const hour = await startEngine({ redisUrl: redis.url, quoteTtlSecs: 3600, powDifficulty: 20 });
  const proof_of_work = solve({ serviceId: 42n, timestamp: BigInt(NOW_SECS) }, 20);
  const { response = {} } = await hour.ask(wireRequest({ proof_of_work }));
  const digest = Buffer.from("9bd02b8b280e84cda6136def5cae3eb19e0c5ab5bd4619a0cad56bc2c4f15a11", "hex");
  expect(recoverAddress(digest, hex(response["signature"]))).toBe(OPERATOR);
  expect((response["proof_of_work"] as Buffer).readBigUInt64LE(40)).toBe(220_500n);
  await hour.close();
});

test("the life of a quote is clamped to the longest there may be", async () => {
  const brief = await startEngine({ redisUrl: redis.url, quoteTtlSecs: 300, maxQuoteAgeSecs: 60 });
  const { response = {} } = await brief.ask(wireRequest());
  expect(response["quote_details"]).toMatchObject({ expiry: String(NOW_SECS + 60) });
  await brief.close();
});

describe("checks are in the order of the contract", () => {
  /** Each way to be wrong, in the order in which it is found out. */
  const faults: readonly (readonly [string, Partial<Wire>, status, RegExp])[] = [
    ["requester of 19 bytes", { requester: Buffer.alloc(19, 1) }, status.INVALID_ARGUMENT, /^requester: /],
    ["requester zero", { requester: Buffer.alloc(20) }, status.INVALID_ARGUMENT, /^requester: /],
    ["inputs_hash", { inputs_hash: Buffer.alloc(31) }, status.INVALID_ARGUMENT, /^inputs_hash: /],
    [
      "no timestamp",
      { challenge_timestamp: "0" },
      status.INVALID_ARGUMENT,
      /^challenge_timestamp: is missing/,
    ],
    [
      "old",
      { challenge_timestamp: String(NOW_SECS - 31) },
      status.INVALID_ARGUMENT,
      /^challenge_timestamp: /,
    ],
    [
      "early",
      { challenge_timestamp: String(NOW_SECS + 31) },
      status.INVALID_ARGUMENT,
      /^challenge_timestamp: /,
    ],
    [
      "far",
      { challenge_timestamp: String(2n ** 64n - 1n) },
      status.INVALID_ARGUMENT,
      /^challenge_timestamp: /,
    ],
    ["proof", { proof_of_work: Buffer.alloc(48) }, status.INVALID_ARGUMENT, /^proof_of_work: /],
    ["tee", { require_tee: true }, status.UNAVAILABLE, /^require_tee: /],
    ["price", { job_index: 300 }, status.NOT_FOUND, /^No pricing configured for service 42 job index 300$/],
    ["index", { job_index: 256 }, status.INVALID_ARGUMENT, /^job_index: /],
  ];

  test.each(faults)("alone: %s", async (_, fault, code, details) => {
    expect(await engine.ask(wireRequest(fault))).toEqual({ code, details: expect.stringMatching(details) });
  });

  const pairs = faults.flatMap((first, i) =>
    faults
      .slice(i + 1)
      .filter(([, later]) => Object.keys(later)[0] !== Object.keys(first[1])[0])
      .map((later) => [first[0], later[0], { ...later[1], ...first[1] }, first[2], first[3]] as const),
  );
  test.each(pairs)("%s before %s", async (_, _later, both, code, details) => {
    expect(await engine.ask(wireRequest(both))).toEqual({ code, details: expect.stringMatching(details) });
  });

  test.each([-30, 30])("%d s off is within 30 s", async (off) => {
    const request = wireRequest({ challenge_timestamp: String(NOW_SECS + off) });
    expect(await engine.ask(request)).toMatchObject({ code: status.OK });
  });

  test("an id of which a double keeps only a part is another service's", async () => {
    const jobs = [{ serviceId: 2 ** 53 - 1, jobIndex: 0, priceWei: 100n }];
    const far = await startEngine({ redisUrl: redis.url, jobs });
    const ask = (service_id: string) => far.ask(wireRequest({ service_id, job_index: 0 }));
    expect(await ask("9007199254740991")).toMatchObject({ code: status.OK });
    expect(await ask("18446744073709551615")).toEqual({
      code: status.NOT_FOUND,
      details: "No pricing configured for service 18446744073709551615 job index 0",
    });
    await far.close();
  });
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

test("every outcome is one event", async () => {
  const quiet = await startEngine({ redisUrl: redis.url });
  await quiet.ask(wireRequest());
  await quiet.ask(wireRequest({ job_index: 9 }));
  const events = quiet.log.events.filter(({ event }) => event.startsWith("quote."));
  expect(events).toEqual([
    {
      event: "quote.issued",
      fields: expect.objectContaining({
        via: "grpc",
        serviceId: "42",
        jobIndex: 3,
        priceWei: String(10n ** 18n),
      }),
    },
    { event: "quote.refused", fields: expect.objectContaining({ code: "job.not_found", status: 404 }) },
  ]);
  expect(quiet.log.text()).not.toContain(KEY.slice(2));
  await quiet.close();
});

test("health says SERVING until the engine drains, which it does while it still answers", async () => {
  const ending = await startEngine({ redisUrl: redis.url });
  const health = (service: string) => ending.client.call("grpc.health.v1.Health", "Check", { service });
  for (const name of ["", ENGINE]) {
    await eventually("SERVING", async () => (await health(name)).response?.["status"] === "SERVING");
  }
  expect(await health("another")).toMatchObject({ code: status.NOT_FOUND });
  ending.service.drain();
  for (const name of ["", ENGINE]) {
    await eventually("NOT_SERVING", async () => (await health(name)).response?.["status"] === "NOT_SERVING");
  }
  expect(await ending.ask(wireRequest())).toMatchObject({ code: status.OK });
  await ending.close();
});

test("the .proto file says what is served", () => {
  const file = fileURLToPath(new URL("../../services/pricing/pricing-engine.proto", import.meta.url));
  expect(describeAll(pricingEngineProto())).toEqual(describeAll(loadSync(file, PROTO_OPTIONS)));
});

function describeAll(definition: ReturnType<typeof pricingEngineProto>) {
  const files = Object.values(definition).flatMap((each) =>
    "format" in each ? (each.fileDescriptorProtos as Buffer[]) : [],
  );
  return [Object.keys(definition), files];
}

test("without a key there is no engine", () => {
  const { log: _, redis: connection } = engine;
  for (const key of ["", "0x", `0x${"0".repeat(64)}`, KEY.slice(2), `0x${"f".repeat(64)}`]) {
    expect(() =>
      createPricingService({
        ...{ jobs: [], domain: DOMAIN, powDifficulty: DIFFICULTY, quoteTtlSecs: 1, maxQuoteAgeSecs: 1 },
        ...{ key: { reveal: () => key }, redis: connection, durability: "strict" },
      }),
    ).toThrow(/key: must be a private key/);
  }
});
