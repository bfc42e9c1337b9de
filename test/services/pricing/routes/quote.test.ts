import { gzipSync } from "node:zlib";
import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { listen } from "../../../../shared/http/listen.ts";
import { decodeQuoteHeader } from "../../../../shared/pricing/job-quote.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { type Engine, NOW_SECS, usePricing, type Wire, wireRequest } from "../../../fixtures/pricing.ts";
import { send, sendRaw } from "../../../support/http.ts";
import { settledAt } from "../x402-settlement.ts";
import { expectRefused, hex, post, toJson } from "./quote/quote-request.ts";

describe("200", () => {
  const pricing = usePricing();
  let engine: Engine;
  beforeAll(async () => {
    engine = await pricing.engine({ settlement: settledAt("https://pay.example.com/a/") });
  });

  test("a quote over HTTP has the same fields as over gRPC", async () => {
    const request = wireRequest();
    const { response = {} } = await engine.ask(request);
    const details = response["quote_details"] as Record<string, unknown>;
    const twin = await post(engine, request);
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

  test("a quote over HTTP has a header for a payment gateway with the same quote and signature", async () => {
    const answer = (await post(engine, wireRequest())).json<Record<string, string>>();
    const decoded = decodeQuoteHeader(String(answer["quote_header"]));
    expect(decoded).toMatchObject({ ok: true, signed: { signature: answer["signature"] } });
    expect(JSON.parse(Buffer.from(String(answer["quote_header"]), "base64").toString())).toEqual({
      details: answer["quote_details"],
      signature: answer["signature"],
    });
  });

  test("a request over HTTP may give its timestamp as a number", async () => {
    const request = wireRequest();
    const json = { ...toJson(request), challenge_timestamp: NOW_SECS };
    expect((await post(engine, request, json)).status).toBe(200);
  });
});

describe("400", () => {
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
  ])(
    "a request over HTTP with %s is refused with 400, with the same message as over gRPC",
    async (_, fault) => {
      const expected = { status: 400, code: "pricing.request_invalid", grpc: status.INVALID_ARGUMENT };
      await expectRefused(engine, wireRequest(fault), expected);
    },
  );

  test.each<[string, object, RegExp]>([
    ["no field at all", {}, /^requester: must be a non-zero 20-byte address, not 0 bytes/],
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
    ["is too deep to be parsed", "[".repeat(65), "body: is nested more than 64 levels deep"],
  ])("a request for a quote whose body %s is refused with 400", async (_what, body, detail) => {
    const broken = await send(engine.http.address, { path: "/pricing/jobs/42/3/quote", body });
    expect(broken.json()).toMatchObject({ status: 400, code: "pricing.request_invalid", detail });
  });
});

describe("404", () => {
  const pricing = usePricing();
  let engine: Engine;
  beforeAll(async () => {
    engine = await pricing.engine();
  });

  test.each<[string, Partial<Wire>]>([
    ["job without a price", { job_index: 4 }],
    ["service without jobs", { service_id: "18446744073709551615" }],
  ])(
    "a request for a %s is answered with 404 and its ids, with the same message as over gRPC",
    async (_, fault) => {
      const request = wireRequest(fault);
      const expected = { status: 404, code: "job.not_found", grpc: status.NOT_FOUND };
      const answer = await expectRefused(engine, request, expected);
      const { service_id, job_index } = request;
      expect(answer.json()).toMatchObject({ service_id, job_index: String(job_index) });
    },
  );

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
  ])("a POST to %s of a pricing engine is answered with 404", async (path) => {
    const body = JSON.stringify(toJson(wireRequest()));
    expect((await send(engine.http.address, { path, body })).json()).toMatchObject({
      status: 404,
      code: "request.not_found",
    });
  });
});

describe("405", () => {
  const pricing = usePricing();

  test.each(["GET", "PUT", "DELETE"])(
    "the method %s is refused with 405 at a quote, and the answer names POST",
    async (method) => {
      const { http } = await pricing.engine();
      const answer = await send(http.address, { method, path: "/pricing/jobs/42/3/quote" });
      expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST, OPTIONS"]);
    },
  );
});

describe("408", () => {
  const pricing = usePricing();
  const ends = useEnds();

  test("a request for a quote whose body does not arrive in time is refused with 408", async () => {
    const { service, log } = await pricing.engine();
    const server = await listen(service.handler, "127.0.0.1:0", { requestTimeoutMs: 400 });
    ends.defer(() => server.close(0));
    const head = "POST /pricing/jobs/42/3/quote HTTP/1.1\r\nHost: pricing\r\nContent-Length: 10\r\n\r\n";
    const answer = await sendRaw(server.address, `${head}half`);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toContain('"code":"request.timed_out"');
    expect(log.events.at(-1)).toMatchObject({
      event: "quote.refused",
      fields: { code: "request.timed_out" },
    });
  });
});

describe("413", () => {
  const pricing = usePricing();

  test("a request for a quote whose body is over 16 KiB is refused with 413", async () => {
    const { http } = await pricing.engine();
    const body = JSON.stringify({ a: "x".repeat(17_000) });
    const large = await send(http.address, { path: "/pricing/jobs/42/3/quote", body });
    expect(large.json()).toMatchObject({ status: 413, code: "request.too_large" });
  });
});

describe("415", () => {
  const pricing = usePricing();

  test("a request for a quote with a Content-Encoding is refused with 415", async () => {
    const engine = await pricing.engine();
    const answer = await send(engine.http.address, {
      path: "/pricing/jobs/42/3/quote",
      headers: { "Content-Type": "application/json", "Content-Encoding": "gzip" },
      body: gzipSync(JSON.stringify(toJson(wireRequest()))),
    });
    expect([answer.status, answer.json()["code"]]).toEqual([415, "request.encoding_unsupported"]);
  });
});

describe("500", () => {
  const pricing = usePricing();

  test("a request whose stored quote cannot be read is answered with 500, and only the log has the reason", async () => {
    const engine = await pricing.engine();
    const request = wireRequest();
    await post(engine, request);
    const { client } = pricing.redis;
    const [key = ""] = await client.keys("{postern}:pricing:proof:*");
    const fields = Object.keys(await client.hgetall(key));
    await client.hset(key, String(fields.find((field) => field.startsWith("quote "))), "broken");
    const answer = await post(engine, request);
    expect([answer.status, answer.json()["code"]]).toEqual([500, "internal.unexpected"]);
    expect(answer.text).not.toContain("cannot be read");
    expect(engine.log.events.at(-1)).toMatchObject({
      event: "quote.refused",
      fields: { via: "http", reason: expect.stringContaining("cannot be read") },
    });
  });
});

describe("503", () => {
  const pricing = usePricing();

  test("a request over HTTP that requires a TEE is refused with 503, with the same message as over gRPC", async () => {
    const engine = await pricing.engine();
    const expected = { status: 503, code: "pricing.tee_unavailable", grpc: status.UNAVAILABLE };
    await expectRefused(engine, wireRequest({ require_tee: true }), expected);
  });

  test("a request over HTTP is refused with 503 and Retry-After if Redis cannot be reached", async () => {
    const engine = await pricing.engine({ redisUrl: "redis://127.0.0.1:1", early: true });
    const expected = { status: 503, code: "pricing.unavailable", grpc: status.UNAVAILABLE };
    await expectRefused(engine, wireRequest(), expected);
    expect(Number((await post(engine, wireRequest())).headers["retry-after"])).toBeGreaterThan(0);
  });
});
