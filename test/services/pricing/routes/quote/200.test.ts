import { beforeAll, expect, test } from "vitest";
import { decodeQuoteHeader } from "../../../../../shared/pricing/job-quote.ts";
import { type Engine, NOW_SECS, usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { settledAt } from "../../x402-settlement.ts";
import { hex, post, toJson } from "./quote-request.ts";

const pricing = usePricing();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine({ extend: settledAt("https://pay.example.com/a/") });
});

test("a quote over HTTP says what gRPC says, field by field", async () => {
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

test("a quote over HTTP comes with the header that an x402 gateway takes: the same quote and signature", async () => {
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
