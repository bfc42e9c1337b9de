import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { recordingLog } from "../support/recording-log.ts";

const REDIS = "redis://127.0.0.1:1";
const SECRET = "a secret that is long enough for anybody";
const ADDRESS = "0x1111111111111111111111111111111111111111";
const SELLER = "0x2222222222222222222222222222222222222222";

const endpoint = { path: "/hooks/a", jobId: 1, preset: "github", secret: SECRET };
const token = {
  ...{ network: "eip155:8453", asset: ADDRESS, symbol: "USDC", decimals: 6, payTo: SELLER },
  ...{ ratePerNativeUnit: "3200", rpcUrl: "https://base.example.com" },
  ...{ eip3009Name: "USD Coin", eip3009Version: "2" },
};
const job = { serviceId: 1, jobIndex: 7, priceWei: 10n ** 15n };

/** A part of each kind, with good options but for the changes. */
const makers = {
  webhooks: (change: object) => createWebhooksGateway({ redis: REDIS, endpoints: [endpoint], ...change }),
  x402: (change: object) =>
    createX402Gateway({
      ...{ redis: REDIS, publicUrl: "https://jobs.example.com", quoteSecret: SECRET },
      ...{ facilitatorUrl: "https://facilitator.example.com", acceptedTokens: [token], jobs: [job] },
      ...change,
    }),
  producer: (change: object) =>
    createProducer({ redis: REDIS, runner: { url: "http://127.0.0.1:8645" }, ...change }),
  runner: (change: object) => createRunner({ redis: REDIS, jobs: createRouter(), ...change }),
};

/** The lines of `start.config_invalid`; none if it was made. */
async function problems(part: keyof typeof makers, change: object): Promise<string[]> {
  try {
    await makers[part](change).close(0);
    return [];
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.config_invalid") throw error;
    return error.message.split("\n");
  }
}

test.each(Object.keys(makers) as (keyof typeof makers)[])(
  "a %s is made with what has no default, and nothing else",
  async (part) => {
    expect(await problems(part, {})).toEqual([]);
  },
);

const wrong: [keyof typeof makers, string, object, RegExp][] = [
  ["webhooks", "no endpoint", { endpoints: [] }, /^endpoints: needs at least one endpoint$/],
  ["webhooks", "no endpoints", { endpoints: undefined }, /^endpoints: is missing$/],
  ["webhooks", "one path twice", { endpoints: [endpoint, endpoint] }, /hooks\/a.*path: is also the path of/],
  [
    "webhooks",
    "a preset that is none",
    { endpoints: [{ ...endpoint, preset: "githb" }] },
    /preset: knows no sender "githb": did you mean github/,
  ],
  ["webhooks", "no job", { endpoints: [{ ...endpoint, jobId: undefined }] }, /jobId: is missing$/],
  [
    "webhooks",
    "an option that does not exist",
    { endpoints: [{ ...endpoint, rateLimits: {} }] },
    /rateLimits: unknown option/,
  ],
  [
    "webhooks",
    "an option that does not exist at its top",
    { requestTimeout: 1 },
    /^requestTimeout: unknown option/,
  ],
  [
    "webhooks",
    "a low burst of nothing",
    { endpoints: [{ ...endpoint, rateLimit: { perSecond: 5, burst: 0 } }] },
    /rateLimit\.burst: must be at least 1$/,
  ],
  [
    "webhooks",
    "an option that means nothing without another",
    { endpoints: [{ ...endpoint, signatureOver: "decoded", auth: "hmac-sha256" }] },
    /signatureOver: is not used: encodedBodies: "refuse" decodes nothing/,
  ],
  [
    "webhooks",
    "a secret whose variable is not set",
    { endpoints: [{ ...endpoint, secret: "env:POSTERN_NO_SUCH" }] },
    /secret: names the environment variable POSTERN_NO_SUCH, which is not set$/,
  ],
  [
    "webhooks",
    "an id window below a signature's",
    {
      endpoints: [
        { ...endpoint, preset: "svix", secret: "whsec_c2VjcmV0c2VjcmV0c2VjcmV0", idempotencyWindowSecs: 60 },
      ],
    },
    /idempotencyWindowSecs: is below \d+/,
  ],
  [
    "webhooks",
    "a header that Postern sets",
    { endpoints: [{ ...endpoint, forwardHeaders: ["X-PLATFORM-A"] }] },
    /forwardHeaders\[0\]: begins with metadataPrefix/,
  ],
  [
    "webhooks",
    "a result that is kept without a secret for its token",
    { endpoints: [{ ...endpoint, keepResult: true }] },
    /keepResult: needs results\.secret/,
  ],
  [
    "webhooks",
    "a secret of results that is empty",
    { results: { secret: "" } },
    /^results\.secret: is empty$/,
  ],
  ["webhooks", "a service below 0", { serviceId: -1 }, /^serviceId: must be at least 0$/],
  [
    "webhooks",
    "a durability that is none",
    { durability: "lax" },
    /^durability: must be "strict" or "relaxed"/,
  ],
  [
    "webhooks",
    "a limit of nothing",
    { limits: { queueDepthMax: 0 } },
    /^limits\.queueDepthMax: must be at least 1$/,
  ],
  [
    "webhooks",
    "a budget below a body",
    { http: { bodyBudgetBytes: 1000 } },
    /^http\.bodyBudgetBytes: is below 1048576/,
  ],
  [
    "webhooks",
    "everybody as a proxy",
    { http: { trustedProxies: ["0.0.0.0/0"] } },
    /^http\.trustedProxies\[0\]: trusts everybody/,
  ],
  [
    "webhooks",
    "a header of no proxy",
    { http: { forwardedHeader: "Forwarded" } },
    /^http\.forwardedHeader: is not used: trustedProxies names no proxy/,
  ],
  ["webhooks", "an address", { bindAddress: "127.0.0.1:1" }, /^bindAddress: is what listen\(\) takes$/],
  [
    "webhooks",
    "a mount path with a slash at its end",
    { mountPath: "/postern/" },
    /^mountPath: must be a path/,
  ],
  [
    "webhooks",
    "a log that is none",
    { log: { info() {} } },
    /^log: must have the functions info, warn and error$/,
  ],
  ["x402", "no token", { acceptedTokens: [] }, /^acceptedTokens: needs at least one token$/],
  [
    "x402",
    "a token twice",
    { acceptedTokens: [token, token] },
    /^acceptedTokens\[1\]\.asset: is the same as that of acceptedTokens\[0\]$/,
  ],
  [
    "x402",
    "a token without a node",
    { acceptedTokens: [{ ...token, rpcUrl: undefined }] },
    /^acceptedTokens\[0\]\.rpcUrl: is missing: .*trustFacilitator: true/,
  ],
  [
    "x402",
    "a token without its domain",
    { acceptedTokens: [{ ...token, eip3009Name: undefined }] },
    /^acceptedTokens\[0\]\.eip3009Name: is missing: .*transferMethod: "permit2"/,
  ],
  [
    "x402",
    "a rate outside its limits",
    { acceptedTokens: [{ ...token, maxRate: "3000" }] },
    /^acceptedTokens\[0\]\.ratePerNativeUnit: 3200 is above maxRate \(3000\)$/,
  ],
  [
    "x402",
    "nobody to settle",
    { facilitatorUrl: undefined },
    /^facilitatorUrl: is missing: it, or facilitators,/,
  ],
  [
    "x402",
    "a price of nothing",
    { jobs: [{ ...job, priceWei: 0n }] },
    /^jobs\[0\]\.priceWei: must be above 0$/,
  ],
  [
    "x402",
    "a price that is half a wei",
    { jobs: [{ ...job, priceWei: "0.5" }] },
    /^jobs\[0\]\.priceWei: must be whole wei/,
  ],
  [
    "x402",
    "a price that no payment of a token can carry",
    { acceptedTokens: [{ ...token, decimals: 36 }], jobs: [{ ...job, priceWei: 2n ** 250n }] },
    /^jobs\[0\]\.priceWei: comes to more than 2\^256-1 units of acceptedTokens\[0\]$/,
  ],
  [
    "x402",
    "an unknown option of a job",
    { jobs: [{ ...job, markup: 0 }] },
    /^jobs\[0\]\.markup: unknown option/,
  ],
  [
    "x402",
    "a job twice",
    { jobs: [job, { ...job, priceWei: "5" }] },
    /^jobs\[1\]: is the same job as jobs\[0\]$/,
  ],
  ["x402", "no jobs", { jobs: undefined }, /^jobs: is missing$/],
  ["x402", "a name that is none", { jobs: [{ ...job, name: "A Job" }] }, /^jobs\[0\]\.name: must be 1 to 32/],
  [
    "x402",
    "an example that does not fit",
    { jobs: [{ ...job, inputSchema: { type: "object" }, inputExample: 7 }] },
    /^jobs\[0\]\.inputExample: /,
  ],
  [
    "x402",
    "a policy without its contract",
    {
      jobPolicies: [
        {
          serviceId: 1,
          jobIndex: 7,
          invocationMode: "restricted_paid",
          rpcUrl: token.rpcUrl,
          authMode: "payer_is_caller",
        },
      ],
    },
    /^jobPolicies\[0\]\.contract: is missing$/,
  ],
  [
    "x402",
    "operators without a domain",
    { quoteOperators: [ADDRESS] },
    /^quoteDomain: is missing: quoteOperators sign/,
  ],
  [
    "x402",
    "a time-out that no payment survives",
    { maxTimeoutSecs: 20 },
    /^maxTimeoutSecs: must be above settleTimeoutSecs \+ 10/,
  ],
  ["x402", "an authorize that is none", { authorize: "x" }, /^authorize: must be a function$/],
  [
    "producer",
    "nowhere to go",
    { runner: undefined },
    /^inject: is missing: it, or runner, says where calls go$/,
  ],
  [
    "producer",
    "two places to go",
    { inject: async () => {} },
    /^runner: stands beside inject: give one of the two$/,
  ],
  ["producer", "a runner without its URL", { runner: { secret: SECRET } }, /^runner\.url: is missing$/],
  ["producer", "no attempt", { attempts: 0 }, /^attempts: must be at least 1$/],
  [
    "producer",
    "a backoff that falls",
    { backoff: { baseMs: 5000, capMs: 1000 } },
    /^backoff\.capMs: is below baseMs$/,
  ],
  [
    "producer",
    "a lock that an injection outlasts",
    { lockMs: 5000 },
    /^runner\.timeoutMs: must be shorter than lockMs/,
  ],
  ["producer", "a job that is none", { jobs: { one: { attempts: 3 } } }, /^jobs\.one: /],
  [
    "producer",
    "a runner that nobody has",
    { jobs: { "0/1": { runner: "fast" } } },
    /^jobs\.0\/1\.runner: names a runner that is not there/,
  ],
  ["producer", "an option that does not exist", { slots: 3 }, /^slots: unknown option/],
  ["producer", "an origin that does not exist", { origins: ["mail"] }, /^origins\[0\]: must be/],
  ["runner", "no router", { jobs: [] }, /^jobs: must be what createRouter\(\) makes$/],
  ["runner", "an empty secret", { secrets: [SECRET, ""] }, /^secrets\[1\]: is empty$/],
  ["runner", "one secret that is no list", { secrets: SECRET }, /^secrets: must be an array$/],
  [
    "runner",
    "answers that outlive their keys",
    { memorySecs: 10, answerSecs: 20 },
    /^answerSecs: is longer than memorySecs/,
  ],
  ["runner", "a lease of nothing", { leaseMs: 0 }, /^leaseMs: must be at least 1000$/],
  ["runner", "an option of the release before", { memoryMs: 10 }, /^memoryMs: unknown option/],
];
test.each(wrong)("a %s with %s is not made, and the option is named", async (part, _, change, line) => {
  expect(await problems(part, change)).toEqual([expect.stringMatching(line)]);
});

test("an option in the spelling of the files is refused, and its own spelling is told", async () => {
  const found = await problems("webhooks", { endpoints: [{ ...endpoint, body_limit_bytes: 10 }] });
  expect(found).toEqual([
    expect.stringMatching(/body_limit_bytes: unknown option; did you mean bodyLimitBytes\?$/),
  ]);
});

test("everything that is wrong is one error, and no secret is in it", async () => {
  const found = await problems("x402", {
    ...{ redis: undefined, publicUrl: "x", quoteSecret: 7, markupBps: -1, limits: { queueBytesMax: 0 } },
    jobs: [{ ...job, priceWei: -1n }],
    facilitatorHeaders: { Authorization: `${SECRET}\n` },
  });
  const names = ["redis", "publicUrl", "quoteSecret", "limits.queueBytesMax", "jobs[0].priceWei"];
  for (const name of [...names, "facilitatorHeaders.Authorization"])
    expect(found).toContainEqual(expect.stringContaining(`${name}: `));
  expect(found.join()).not.toContain(SECRET);
});

test("what is allowed and unwise in options is an event of the log, in the names of code", async () => {
  const log = recordingLog();
  const gateway = makers.webhooks({ endpoints: [{ ...endpoint, secret: "short" }], log });
  await gateway.close(0);
  expect(log.events).toContainEqual(
    expect.objectContaining({
      event: "config.warning",
      fields: { warning: expect.stringMatching(/^endpoint.*secret.*: the secret has only 5 bytes/) },
    }),
  );
});

describe("a connection of the host's own", () => {
  const fast = {
    ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false },
    ...{ commandTimeout: 1500, lazyConnect: true },
  };
  const ofSettings = async (part: keyof typeof makers, settings: object) => {
    const redis = new Redis({ port: 1, retryStrategy: () => null, lazyConnect: true, ...settings });
    redis.on("error", () => {});
    const found = await problems(part, { redis });
    redis.disconnect();
    return found;
  };

  test.each(["webhooks", "x402", "runner"] as const)(
    "is refused by a %s if it would let requests wait or send a write twice, and what to set is told",
    async (part) => {
      expect(await ofSettings(part, fast)).toEqual([]);
      expect(await ofSettings(part, {})).toEqual([
        "redis: must be made with enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, commandTimeout: 1500: so requests are answered while Redis is away, and no write is sent twice",
      ]);
      expect(await ofSettings(part, { ...fast, commandTimeout: undefined })).toEqual([
        expect.stringMatching(/^redis: must be made with commandTimeout: 1500: /),
      ]);
    },
  );

  test("is refused by a producer if it gives calls up, and what to set is told", async () => {
    expect(await ofSettings("producer", { maxRetriesPerRequest: null })).toEqual([]);
    expect(await ofSettings("producer", {})).toEqual([
      "redis: must be made with maxRetriesPerRequest: null: so calls wait for Redis to return",
    ]);
    expect(await ofSettings("producer", { maxRetriesPerRequest: null, enableOfflineQueue: false })).toEqual([
      expect.stringMatching(/^redis: must be made with enableOfflineQueue: true: /),
    ]);
  });

  test("is refused if it gives all keys a prefix, or is something else", async () => {
    expect(await ofSettings("webhooks", { ...fast, keyPrefix: "mine:" })).toEqual([
      expect.stringMatching(/^redis: must have no keyPrefix/),
    ]);
    for (const redis of [{}, 6379, null, { url: REDIS }])
      expect(await problems("webhooks", { redis })).toEqual([
        "redis: must be a redis:// URL, or a connection of ioredis",
      ]);
    expect(await problems("webhooks", { redis: "http://127.0.0.1" })).toEqual([
      expect.stringMatching(/^redis: must be a redis:\/\//),
    ]);
  });
});
