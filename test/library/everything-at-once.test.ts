import { expect, test } from "vitest";
import { createPricingService } from "../../services/pricing/pricing.ts";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { problemsOf } from "../shared/config/files.ts";

const SECRET = "a secret that is long enough for anybody";
const ADDRESS = "0x1111111111111111111111111111111111111111";
const postern = { redis: { url: "redis://127.0.0.1:1" } };
const endpoint = { path: "/hooks/a", job_id: 1, preset: "github" as const, secret: SECRET };
const webhooks = { endpoints: [endpoint] };
const job = { price_wei: "1000000000000000" };
const job_pricing = { 1: { 7: job } };
const x402 = {
  ...{ public_url: "https://jobs.example.com", quote_secret: SECRET },
  facilitator_url: "https://facilitator.example.com",
  accepted_tokens: [
    {
      ...{ network: "eip155:8453", asset: ADDRESS, symbol: "USDC", decimals: 6, pay_to: ADDRESS },
      ...{ rate_per_native_unit: "3200", rpc_url: "https://base.example.com" },
      ...{ eip3009_name: "USD Coin", eip3009_version: "2" },
    },
  ],
};
const pricing = { key: `0x${"1".repeat(64)}`, domain: { chain_id: 1, verifying_contract: ADDRESS } };
const runner = { url: "http://127.0.0.1:8645" };

/** Creates a part of each kind with any options, even of wrong types. */
const makers = {
  webhooks: (options: object) => createWebhooksGateway({ postern, webhooks, ...options }),
  x402: (options: object) => createX402Gateway({ postern, x402, job_pricing, ...options }),
  pricing: (options: object) => createPricingService({ postern, pricing, job_pricing, ...options }),
  producer: (options: object) => createProducer({ postern: { ...postern, runner }, ...options }),
  runner: (options: object) => createRunner({ postern, jobs: createRouter(), ...options }),
};
type Part = keyof typeof makers;

const problems = (part: Part, options: object) => problemsOf(() => makers[part](options));
const containing = (texts: readonly string[]) => texts.map((text) => expect.stringContaining(text));

test("an error in one option of a webhooks gateway does not hide errors in its other options or in those common to all parts", () => {
  const open = { path: "/b", job_id: 1, auth: "none" };
  const found = problems("webhooks", {
    postern: {
      ...{ metadata_prefix: "X-P", limits: { queue_depth_max: 0 }, http: { body_budget_bytes: 1000 } },
      results: { wait_secs_max: 1, waiters_max: "many" },
    },
    webhooks: {
      endpoints: [
        { ...endpoint, respond: "result", rate_limit: 5, body_limit_bytes: 2_000_000 },
        { ...open, keep_result: true, forward_headers: ["X-P-A", "a b"] },
      ],
    },
    mountPath: "/a/",
  });
  expect(found.toSorted()).toEqual(
    containing([
      "mountPath: must be a path",
      "postern: http.body_budget_bytes: must be at least 2000000, the largest body of endpoint /hooks/a",
      "postern: limits.queue_depth_max: must be at least 1, not 0",
      "postern: results.waiters_max: must be an integer",
      "webhooks: endpoint /b: forward_headers[0]: must not start with metadata_prefix",
      "webhooks: endpoint /b: forward_headers[1]: must be a header name",
      "webhooks: endpoint /b: keep_result: needs results.secret",
      "webhooks: endpoint /hooks/a: rate_limit: must be an object",
      "webhooks: endpoint /hooks/a: respond: waits for 3 s, but results.wait_secs_max of postern.toml is 1",
    ]),
  );
});

test("an error in one option of a payment gateway does not hide errors in its other options or in those common to all parts", () => {
  const found = problems("x402", {
    x402: { ...x402, public_url: "x", body_limit_bytes: 2000 },
    postern: { ...postern, http: { body_budget_bytes: 1000 } },
  });
  expect(found.toSorted()).toEqual(
    containing([
      "postern: http.body_budget_bytes: must be at least 2000, the largest body of x402.toml",
      "x402: public_url: must be",
    ]),
  );
});

test.each<[Part, object, string]>([
  ["webhooks", { postern: { http: { body_budget_bytes: "x" } } }, "postern: http.body_budget_bytes: must be"],
  [
    "webhooks",
    { webhooks: { ...webhooks, body_limit_bytes: "x" }, postern: { http: { body_budget_bytes: 1 } } },
    "webhooks: body_limit_bytes: must be",
  ],
  [
    "x402",
    { x402: { ...x402, body_limit_bytes: "x" }, postern: { http: { body_budget_bytes: 1 } } },
    "x402: body_limit_bytes: must be",
  ],
  [
    "webhooks",
    {
      postern: { results: { wait_sec_max: 1 } },
      webhooks: { endpoints: [{ ...endpoint, respond: "result", wait_secs: 60 }] },
    },
    "postern: results.wait_sec_max: unknown key",
  ],
])("a wrong value makes up no problem of an option that is judged by it: %s %j", (part, options, problem) => {
  expect(problems(part, options)).toEqual(containing([problem]));
});

test.each<[Part, object, string]>([
  ["webhooks", { webhooks: undefined, webhoks: webhooks }, "webhoks"],
  ["webhooks", { webhooks: { endpoint: [endpoint] } }, "webhooks: endpoint"],
  [
    "webhooks",
    { webhooks: { endpoints: [{ ...endpoint, job_id: undefined, job_idd: 1 }] } },
    "webhooks: endpoint /hooks/a: job_idd",
  ],
  [
    "webhooks",
    { webhooks: { endpoints: [{ path: "/a", job_id: 1, auht: "none" }] } },
    "webhooks: endpoint /a: auht",
  ],
  ["x402", { job_pricing: undefined, job_prices: job_pricing }, "job_prices"],
  ["x402", { job_pricing: { 1: { 7: { price_wie: "1" } } } }, "job_pricing: 1.7.price_wie"],
  [
    "x402",
    { job_pricing: { 1: { 7: { ...job, input_shema: true, input_example: 1 } } } },
    "job_pricing: 1.7.input_shema",
  ],
  ["x402", { x402: { ...x402, facilitator_url: undefined, facilitator: [] } }, "x402: facilitator"],
  ["pricing", { pricing: { ...pricing, domain: undefined, domian: pricing.domain } }, "pricing: domian"],
  ["producer", { postern: { ...postern, runer: runner } }, "postern: runer"],
  ["producer", { postern: { ...postern, runner: { ulr: runner.url } } }, "postern: runner.ulr"],
  ["producer", { postern: { ...postern, runner, callbacks: { secrt: "x" } } }, "postern: callbacks.secrt"],
])("a misspelt option of a %s is not also reported as missing: %j", (part, options, name) => {
  expect(problems(part, options)).toEqual(containing([`${name}: unknown key`]));
});

test("all parts of a deployment can share one postern object, and each reads only the secrets that it uses", async () => {
  const shared = {
    ...postern,
    ...{
      runner: { ...runner, secret: "env:NO_RUNNER_SECRET" },
      results: { secret: "env:NO_RESULTS_SECRET" },
    },
    callbacks: { secret: "env:NO_CALLBACK_SECRET" },
  };
  const missing = (key: string, name: string) =>
    `postern: ${key}: names the environment variable ${name}, which is not set`;
  const callbacks = missing("callbacks.secret", "NO_CALLBACK_SECRET");
  const results = missing("results.secret", "NO_RESULTS_SECRET");
  const ofRunner = missing("runner.secret", "NO_RUNNER_SECRET");
  const read = (part: Part) => problems(part, { postern: shared }).toSorted();
  expect(read("webhooks")).toEqual([results]);
  expect(read("x402")).toEqual([results]);
  expect(read("runner")).toEqual([ofRunner]);
  expect(read("producer")).toEqual([callbacks, ofRunner]);
  await makers.pricing({ postern: shared }).close(0);
});

test("an option in camelCase is reported as an unknown key", () => {
  expect(problems("webhooks", { postern: { metadataPrefix: "X-P" } })).toEqual([
    "postern: metadataPrefix: unknown key; did you mean metadata_prefix?",
  ]);
});

test("an option with the value undefined counts as absent, even if the key has a default elsewhere", async () => {
  const [token] = x402.accepted_tokens;
  const accepted_tokens = [
    { ...token, rate_per_native_unit: undefined, transfer_method: undefined, markup_bps: undefined },
  ];
  const gateway = makers.x402({ x402: { ...x402, accepted_tokens, rate_per_native_unit: "3200" } });
  await gateway.close(0);
});

test.each(["x402", "pricing"] as const)(
  "an error in one key of a job does not hide errors in the other jobs of a %s",
  (part) => {
    const found = problems(part, {
      job_pricing: {
        1: {
          7: { price_wei: "x", name: "a", keep_result: 1, callback_url: "x" },
          8: { ...job, name: "a" },
          9: { ...job, price_wei: undefined },
          10: 7,
        },
        "-1": { 7: { price_wei: "0", description: "" } },
      },
    });
    expect(found.toSorted()).toEqual(
      containing([
        "job_pricing: -1.7.description: is empty",
        "job_pricing: -1.7.price_wei: must be above 0",
        "job_pricing: -1: ",
        "job_pricing: 1.10: must be quoted",
        "job_pricing: 1.7.callback_url: ",
        "job_pricing: 1.7.keep_result: must be",
        "job_pricing: 1.7.price_wei: must be an integer in wei",
        "job_pricing: 1.8.name: must be unique: job 1/7 has this name",
        "job_pricing: 1.9.price_wei: is missing",
      ]),
    );
  },
);
