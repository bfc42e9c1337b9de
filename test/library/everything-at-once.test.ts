import { expect, test } from "vitest";
import { createPricingService } from "../../services/pricing/pricing.ts";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { problemsOf } from "../shared/config/files.ts";

const SECRET = "a secret that is long enough for anybody";
const ADDRESS = "0x1111111111111111111111111111111111111111";
const common = { redis: "redis://127.0.0.1:1" };
const endpoint = { path: "/hooks/a", jobId: 1, preset: "github", secret: SECRET };
const job = { serviceId: 1, jobIndex: 7, priceWei: "1000000000000000" };
const x402 = {
  ...{ ...common, publicUrl: "https://jobs.example.com", quoteSecret: SECRET, jobs: [job] },
  facilitatorUrl: "https://facilitator.example.com",
  acceptedTokens: [
    {
      ...{ network: "eip155:8453", asset: ADDRESS, symbol: "USDC", decimals: 6, payTo: ADDRESS },
      ...{ ratePerNativeUnit: "3200", rpcUrl: "https://base.example.com" },
      ...{ eip3009Name: "USD Coin", eip3009Version: "2" },
    },
  ],
};
const pricing = {
  ...{ ...common, jobs: [job], key: `0x${"1".repeat(64)}` },
  domain: { chainId: 1, verifyingContract: ADDRESS },
};

/** A part of each kind of options that a program may give, whatever their types. */
const makers = {
  webhooks: (options: object) => createWebhooksGateway({ ...common, endpoints: [endpoint], ...options }),
  x402: (options: object) => createX402Gateway({ ...x402, ...options }),
  pricing: (options: object) => createPricingService({ ...pricing, ...options }),
  producer: (options: object) =>
    createProducer({ ...common, runner: { url: "http://127.0.0.1:8645" }, ...options }),
  runner: (options: object) => createRunner({ ...common, jobs: createRouter(), ...options }),
};
type Part = keyof typeof makers;

const problems = (part: Part, options: object) => problemsOf(() => makers[part](options));
const containing = (texts: readonly string[]) => texts.map((text) => expect.stringContaining(text));

test("a wrong option of a webhooks gateway hides nothing between its options and those of all parts", () => {
  const open = { path: "/b", jobId: 1, auth: "none" };
  const found = problems("webhooks", {
    ...{ metadataPrefix: "X-P", limits: { queueDepthMax: 0 }, http: { bodyBudgetBytes: 1000 } },
    results: { waitSecsMax: 1, waitersMax: "many" },
    endpoints: [
      { ...endpoint, respond: "result", rateLimit: 5, bodyLimitBytes: 2_000_000 },
      { ...open, keepResult: true, forwardHeaders: ["X-P-A", "a b"] },
    ],
  });
  expect(found.toSorted()).toEqual(
    containing([
      "endpoint /b: forwardHeaders[0]: begins with metadataPrefix",
      "endpoint /b: forwardHeaders[1]: is not a header name",
      "endpoint /b: keepResult: needs results.secret",
      "endpoint /hooks/a: rateLimit: must be an object",
      "endpoint /hooks/a: respond: wants 3 s, which is above results.waitSecsMax",
      "http.bodyBudgetBytes: is below 2000000, which one body of endpoint /hooks/a may take",
      "limits.queueDepthMax: must be at least 1",
      "results.waitersMax: must be",
    ]),
  );
});

test("a wrong option of an x402 gateway hides nothing between its options and those of all parts", () => {
  expect(problems("x402", { publicUrl: "x", bodyLimitBytes: 2000, http: { bodyBudgetBytes: 1000 } })).toEqual(
    containing(["publicUrl: must be", "http.bodyBudgetBytes: is below 2000"]),
  );
});

test.each<[Part, object, string]>([
  ["webhooks", { http: { bodyBudgetBytes: "x" } }, "http.bodyBudgetBytes: must be"],
  ["webhooks", { bodyLimitBytes: "x", http: { bodyBudgetBytes: 1 } }, "bodyLimitBytes: must be"],
  ["x402", { bodyLimitBytes: "x", http: { bodyBudgetBytes: 1 } }, "bodyLimitBytes: must be"],
  [
    "webhooks",
    { results: { waitSecMax: 1 }, endpoints: [{ ...endpoint, respond: "result", waitSecs: 60 }] },
    "results.waitSecMax: unknown option",
  ],
])("a wrong value makes up no problem of an option that is judged by it: %s %j", (part, options, problem) => {
  expect(problems(part, options)).toEqual(containing([problem]));
});

test.each<[Part, object, string]>([
  ["webhooks", { redis: undefined, redys: "x" }, "redys"],
  ["webhooks", { endpoints: undefined, endpoint: [endpoint] }, "endpoint"],
  ["webhooks", { endpoints: [{ ...endpoint, jobId: undefined, jobIdd: 1 }] }, "endpoint /hooks/a: jobIdd"],
  ["webhooks", { endpoints: [{ path: "/a", jobId: 1, auht: "none" }] }, "endpoint /a: auht"],
  ["x402", { jobs: undefined, job: [job] }, "job"],
  ["x402", { jobs: [{ ...job, priceWei: undefined, priceWie: "1" }] }, "jobs[0].priceWie"],
  ["x402", { jobs: [{ ...job, inputShema: true, inputExample: 1 }] }, "jobs[0].inputShema"],
  ["x402", { facilitatorUrl: undefined, facilitator: [] }, "facilitator"],
  ["pricing", { domain: undefined, domian: pricing.domain }, "domian"],
  ["producer", { runner: undefined, runer: { url: "http://127.0.0.1:1" } }, "runer"],
  ["producer", { runner: { ulr: "http://127.0.0.1:1" } }, "runner.ulr"],
  ["producer", { callbacks: { secrt: "x" } }, "callbacks.secrt"],
])("an option of a %s that is misspelt is not missing too: %j", (part, options, name) => {
  expect(problems(part, options)).toEqual(containing([`${name}: unknown option`]));
});

test.each<[Part, object, string]>([
  ["webhooks", { metadata_prefix: "X-P" }, "metadata_prefix: unknown option; did you mean metadataPrefix?"],
  ["x402", { quoteSecret: undefined, quote_secret: SECRET }, "quote_secret: unknown option"],
])("an option in the spelling of the files is one problem: %s %j", (part, options, problem) => {
  expect(problems(part, options)).toEqual(containing([problem]));
});

test.each(["x402", "pricing"] as const)(
  "a wrong key of a job hides nothing else of the jobs of a %s",
  (part) => {
    const found = problems(part, {
      jobs: [
        { ...job, priceWei: "x", name: "a", keepResult: 1, callbackUrl: "x" },
        { ...job, jobIndex: 8, name: "a" },
        { ...job, serviceId: -1, priceWei: "0", description: "" },
        { ...job, jobIndex: 8, priceWei: undefined },
        7,
      ],
    });
    expect(found.toSorted()).toEqual(
      containing([
        "jobs[0].callbackUrl: ",
        "jobs[0].keepResult: must be",
        "jobs[0].priceWei: must be whole wei",
        "jobs[1].name: job 1/7 has this name",
        "jobs[2].description: is empty",
        "jobs[2].priceWei: must be above 0",
        "jobs[2].serviceId: must be at least 0",
        "jobs[3].priceWei: is missing",
        "jobs[3]: is the same job as jobs[1]",
        "jobs[4]: must be an object",
      ]),
    );
  },
);
