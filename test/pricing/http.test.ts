import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { decodeQuoteHeader } from "../../shared/pricing/job-quote.ts";
import { send } from "../support/http.ts";
import { type Engine, NOW_SECS, OPERATOR, startEngine, type Wire, wireRequest } from "./pricing-fixture.ts";

const TOKENS = [
  {
    network: "eip155:31337",
    asset: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    symbol: "USDC",
    decimals: 6,
    markup_bps: 200,
    pay_to: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    rate_per_native_unit: "3200",
  },
];

let redis: PrivateRedis;
let engine: Engine;
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  engine = await startEngine({
    redisUrl: redis.url,
    extend: (service) =>
      service.withX402Settlement({ endpoint: "https://pay.example.com/a/", acceptedTokens: TOKENS }),
  });
});
afterAll(async () => {
  await engine.close();
  await redis.stop();
});

const hex = (bytes: unknown) => `0x${Buffer.from(bytes as Buffer).toString("hex")}`;

/** The request as JSON. */
function toJson({ proof_of_work, challenge_timestamp, require_tee, requester, inputs_hash }: Wire) {
  const bytes = {
    proof_of_work: hex(proof_of_work),
    requester: hex(requester),
    inputs_hash: hex(inputs_hash),
  };
  return { challenge_timestamp, require_tee, ...bytes };
}

function post(request: Wire, json: object = toJson(request), at = engine) {
  const path = `/pricing/jobs/${request.service_id}/${request.job_index}/quote`;
  return send(at.http.address, { path, body: JSON.stringify(json) });
}

describe("the HTTP twin", () => {
  test("answers what gRPC answers, field by field", async () => {
    const request = wireRequest();
    const { response = {} } = await engine.ask(request);
    const details = response["quote_details"] as Record<string, unknown>;
    const twin = await post(request);
    expect(twin.status).toBe(200);
    expect(twin.headers["content-type"]).toBe("application/json");
    expect(twin.headers["cache-control"]).toBe("no-store");
    expect(twin.json()).toEqual({
      quote_details: {
        service_id: details["service_id"],
        job_index: String(details["job_index"]),
        price: String(BigInt(hex(details["price"]))),
        timestamp: details["timestamp"],
        expiry: details["expiry"],
        confidentiality: String(details["confidentiality"]),
        requester: hex(details["requester"]),
        inputs_hash: hex(details["inputs_hash"]),
      },
      signature: hex(response["signature"]),
      operator_id: hex(response["operator_id"]),
      proof_of_work: hex(response["proof_of_work"]),
      settlement_options: response["settlement_options"],
      x402_endpoint: response["x402_endpoint"],
      tee_attested: false,
      tee_provider: "",
      quote_header: expect.any(String),
    });
  });

  test("hands over the header that an x402 gateway takes: the same quote and signature", async () => {
    const answer = (await post(wireRequest())).json<Record<string, string>>();
    const decoded = decodeQuoteHeader(String(answer["quote_header"]));
    expect(decoded).toMatchObject({ ok: true, signed: { signature: answer["signature"] } });
    expect(JSON.parse(Buffer.from(String(answer["quote_header"]), "base64").toString())).toEqual({
      details: answer["quote_details"],
      signature: answer["signature"],
    });
  });

  test("takes integers as numbers too", async () => {
    const request = wireRequest();
    expect((await post(request, { ...toJson(request), challenge_timestamp: NOW_SECS })).status).toBe(200);
  });

  test.each<[string, Partial<Wire>, number, string, number]>([
    ["requester", { requester: Buffer.alloc(20) }, 400, "pricing.request_invalid", status.INVALID_ARGUMENT],
    [
      "inputs_hash",
      { inputs_hash: Buffer.alloc(0) },
      400,
      "pricing.request_invalid",
      status.INVALID_ARGUMENT,
    ],
    ["timestamp", { challenge_timestamp: "0" }, 400, "pricing.request_invalid", status.INVALID_ARGUMENT],
    ["proof", { proof_of_work: Buffer.alloc(48) }, 400, "pricing.request_invalid", status.INVALID_ARGUMENT],
    ["tee", { require_tee: true }, 503, "pricing.tee_unavailable", status.UNAVAILABLE],
    ["price", { job_index: 4 }, 404, "job.not_found", status.NOT_FOUND],
    ["another service", { service_id: "18446744073709551615" }, 404, "job.not_found", status.NOT_FOUND],
    ["index", { job_index: 256 }, 400, "pricing.request_invalid", status.INVALID_ARGUMENT],
  ])("refuses as gRPC does, as a problem document: %s", async (_, fault, httpStatus, code, grpcStatus) => {
    const request = wireRequest(fault);
    const { details, ...rest } = await engine.ask(request);
    const answer = await post(request);
    expect(rest.code).toBe(grpcStatus);
    expect(answer.status).toBe(httpStatus);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(answer.json()).toMatchObject({ code, detail: details, error: details, status: httpStatus });
    if (code === "job.not_found") {
      const { service_id, job_index } = request;
      expect(answer.json()).toMatchObject({ service_id, job_index: String(job_index) });
    }
  });

  test.each<[string, object, RegExp]>([
    ["nothing at all", {}, /^requester: must be 20 bytes/],
    ["an unknown field", { nonce: 1 }, /^nonce: /],
    ["hex without 0x", { requester: "00" }, /^requester: /],
    ["half a byte", { requester: "0x123" }, /^requester: /],
    ["bytes as a list", { inputs_hash: [1] }, /^inputs_hash: /],
    ["a negative time", { challenge_timestamp: -1 }, /^challenge_timestamp: /],
    ["a padded time", { challenge_timestamp: "01700000000" }, /^challenge_timestamp: /],
    ["a time beyond 2^64-1", { challenge_timestamp: "18446744073709551616" }, /^challenge_timestamp: /],
    [
      "a time of which a double keeps only a part",
      { challenge_timestamp: 2 ** 60 },
      /^challenge_timestamp: /,
    ],
    ["a flag as text", { require_tee: "no" }, /^require_tee: /],
    ["a list", [], /^body: /],
  ])("names the field that is no field of the request: %s", async (_, json, detail) => {
    const answer = await post(wireRequest(), json);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({
      code: "pricing.request_invalid",
      detail: expect.stringMatching(detail),
    });
  });

  test("a body that is not JSON, or over 16 KiB, is refused", async () => {
    const path = "/pricing/jobs/42/3/quote";
    const broken = await send(engine.http.address, { path, body: "{" });
    expect(broken.json()).toMatchObject({ status: 400, code: "pricing.request_invalid" });
    const large = await send(engine.http.address, { path, body: JSON.stringify({ a: "x".repeat(17_000) }) });
    expect(large.json()).toMatchObject({ status: 413, code: "request.too_large" });
  });

  test.each([
    "/pricing/jobs/42/3/quote/",
    "/pricing/jobs/42/3",
    "/pricing/jobs/042/3/quote",
    "/pricing/jobs/42/+3/quote",
    "/pricing/jobs/42/%33/quote",
    "/pricing/jobs/42/4294967296/quote",
    "/pricing/jobs/18446744073709551616/3/quote",
    "/PRICING/jobs/42/3/quote",
    "/pricing//jobs/42/3/quote",
    "/",
  ])("nothing is at %s", async (path) => {
    const body = JSON.stringify(toJson(wireRequest()));
    expect((await send(engine.http.address, { path, body })).json()).toMatchObject({
      status: 404,
      code: "request.not_found",
    });
  });

  test.each(["GET", "PUT", "OPTIONS"])("%s is not allowed", async (method) => {
    const answer = await send(engine.http.address, { method, path: "/pricing/jobs/42/3/quote" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST"]);
  });
});

describe("settlement options", () => {
  test("say what the quote comes to in each token, and where: rounded up, with the markup", async () => {
    const jobs = [{ serviceId: 42, jobIndex: 3, priceWei: 10n ** 15n + 1n }];
    const priced = await startEngine({
      redisUrl: redis.url,
      jobs,
      extend: (service) =>
        service.withX402Settlement({ endpoint: "https://pay.example.com", acceptedTokens: TOKENS }),
    });
    const { response = {} } = await priced.ask(wireRequest());
    const { network, asset, symbol, pay_to } = TOKENS[0]!;
    // 0.001 x 3200 x 1.02 = 3.264 tokens, and a part of a unit more.
    expect(response["settlement_options"]).toEqual([
      { network, asset, symbol, amount: "3264001", pay_to, scheme: "exact" },
    ]);
    expect(response["x402_endpoint"]).toBe("https://pay.example.com/x402/jobs/42/3");
    await priced.close();
  });

  test("are there only where the service was made with them; the service itself does not change", async () => {
    let plain: Engine["service"] | undefined;
    const both = await startEngine({
      redisUrl: redis.url,
      extend: (service) => {
        plain = service;
        return service.withX402Settlement({ endpoint: "https://pay.example.com", acceptedTokens: TOKENS });
      },
    });
    const ask = async (service: Engine["service"]) => {
      const { proof_of_work, requester, inputs_hash } = wireRequest();
      return service.getJobPrice({
        ...{ serviceId: 42n, jobIndex: 3, challengeTimestamp: BigInt(NOW_SECS), requireTee: false },
        ...{ proofOfWork: proof_of_work, requester, inputsHash: inputs_hash },
      });
    };
    expect((await ask(both.service)).settlement).toBeDefined();
    expect((await ask(plain!)).settlement).toBeUndefined();
    expect((await ask(plain!)).operator).toBe(OPERATOR);
    await both.close();

    const without = await startEngine({ redisUrl: redis.url });
    const request = wireRequest();
    const answer = (await post(request, toJson(request), without)).json();
    expect(answer).not.toHaveProperty("settlement_options");
    expect(answer).not.toHaveProperty("x402_endpoint");
    await without.close();
  });

  test("follow the rates of now, of a repeated quote too; a token whose rate is unknown is not among them", async () => {
    let rate: string | undefined = "3200";
    const moving = await startEngine({
      redisUrl: redis.url,
      extend: (service) =>
        service.withX402Settlement({
          endpoint: "https://pay.example.com",
          acceptedTokens: TOKENS.map((token) => ({ ...token, rate_per_native_unit: { source: "feed" } })),
          rateOf: () => rate,
        }),
    });
    const request = wireRequest();
    const first = (await post(request, toJson(request), moving)).json<Record<string, unknown>>();
    expect(first["settlement_options"]).toMatchObject([{ amount: "3264000000" }]);
    rate = "1600";
    const second = (await post(request, toJson(request), moving)).json<Record<string, unknown>>();
    expect(second["settlement_options"]).toMatchObject([{ amount: "1632000000" }]);
    expect(second["quote_header"]).toBe(first["quote_header"]);
    rate = undefined;
    const third = (await post(request, toJson(request), moving)).json<Record<string, unknown>>();
    expect(third["settlement_options"]).toEqual([]);
    await moving.close();
  });
});
