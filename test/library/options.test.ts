import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { sample } from "../support/long-run.ts";
import { recordingLog } from "../support/recording-log.ts";

const REDIS = "redis://127.0.0.1:1";
const SECRET = "a secret that is long enough for anybody";
const ADDRESS = "0x1111111111111111111111111111111111111111";
const SELLER = "0x2222222222222222222222222222222222222222";

const endpoint = { path: "/hooks/a", job_id: 1, preset: "github" as const, secret: SECRET };
const token = {
  ...{ network: "eip155:8453", asset: ADDRESS, symbol: "USDC", decimals: 6, pay_to: SELLER },
  ...{ rate_per_native_unit: "3200", rpc_url: "https://base.example.com" },
  ...{ eip3009_name: "USD Coin", eip3009_version: "2" },
};
const job = { price_wei: "1000000000000000" };
const shop = {
  ...{ public_url: "https://jobs.example.com", quote_secret: SECRET },
  ...{ facilitator_url: "https://facilitator.example.com", accepted_tokens: [token] },
};
const runner = { url: "http://127.0.0.1:8645" };
const postern = (change: object) => ({ redis: { url: REDIS }, ...change });

/** Creates a part of each kind with valid options, except for the given changes. */
const makers = {
  webhooks: (change: object) =>
    createWebhooksGateway({ postern: postern({}), webhooks: { endpoints: [endpoint] }, ...change }),
  x402: (change: object) =>
    createX402Gateway({ postern: postern({}), x402: shop, job_pricing: { 1: { 7: job } }, ...change }),
  producer: (change: object) => createProducer({ postern: postern({ runner }), ...change }),
  runner: (change: object) => createRunner({ postern: postern({}), jobs: createRouter(), ...change }),
};

/*
 * Helpers that change a single table.
 */
const hooks = (change: object) => ({ webhooks: { endpoints: [endpoint], ...change } });
const hook = (change: object) => hooks({ endpoints: [{ ...endpoint, ...change }] });
const x402 = (change: object) => ({ x402: { ...shop, ...change } });
const jobs = (change: object) => ({ job_pricing: { 1: { 7: { ...job, ...change } } } });
const inPostern = (change: object) => ({ postern: postern(change) });
const ofProducer = (change: object) => inPostern({ runner, ...change });
const ofRunner = (change: object) => inPostern({ runner: change });

/** Returns the lines of `start.config_invalid`; no lines if the part was created. */
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
  "a %s can be created with only the options that have no default",
  async (part) => {
    expect(await problems(part, {})).toEqual([]);
  },
);

const wrong: [keyof typeof makers, string, object, RegExp][] = [
  [
    "webhooks",
    "no endpoint",
    hooks({ endpoints: [] }),
    /^webhooks: endpoints: must list at least one endpoint$/,
  ],
  ["webhooks", "no endpoints", hooks({ endpoints: undefined }), /^webhooks: endpoints: is missing$/],
  ["webhooks", "no table of its own", { webhooks: undefined }, /^webhooks: is missing$/],
  ["webhooks", "an invalid table", { webhooks: [endpoint] }, /^webhooks: must be an object$/],
  [
    "webhooks",
    "a repeated path",
    hooks({ endpoints: [endpoint, endpoint] }),
    /^webhooks: endpoint \/hooks\/a: path: must be unique: another endpoint has this path/,
  ],
  [
    "webhooks",
    "an unknown preset",
    hook({ preset: "githb" }),
    /preset: must be a known preset, not "githb"; did you mean github/,
  ],
  ["webhooks", "no job", hook({ job_id: undefined }), /job_id: is missing: set job_id or route_by$/],
  ["webhooks", "an option that does not exist", hook({ rate_limits: {} }), /rate_limits: unknown key/],
  [
    "webhooks",
    "an unknown option at the top level",
    hooks({ request_timeout: 1 }),
    /^webhooks: request_timeout: unknown key; did you mean request_timeout_secs\?$/,
  ],
  [
    "webhooks",
    "a low burst of nothing",
    hook({ rate_limit: { per_second: 5, burst: 0 } }),
    /rate_limit\.burst: must be at least 1, not 0$/,
  ],
  [
    "webhooks",
    "an option that requires another one",
    hook({ signature_over: "decoded", auth: "hmac-sha256" }),
    /signature_over: is not used: with encoded_bodies = "refuse", no body is decoded/,
  ],
  [
    "webhooks",
    "a secret whose variable is not set",
    hook({ secret: "env:POSTERN_NO_SUCH" }),
    /secret: names the environment variable POSTERN_NO_SUCH, which is not set$/,
  ],
  [
    "webhooks",
    "an id window below a signature's",
    hook({ preset: "svix", secret: "whsec_c2VjcmV0c2VjcmV0c2VjcmV0", idempotency_window_secs: 60 }),
    /idempotency_window_secs: must be at least \d+: for that long, a recorded delivery can be sent again/,
  ],
  [
    "webhooks",
    "a header that Postern sets",
    hook({ forward_headers: ["X-PLATFORM-A"] }),
    /forward_headers\[0\]: must not start with metadata_prefix/,
  ],
  [
    "webhooks",
    "a result that is kept without a secret for its token",
    hook({ keep_result: true }),
    /keep_result: needs results\.secret/,
  ],
  [
    "webhooks",
    "an empty result secret",
    inPostern({ results: { secret: "" } }),
    /^postern: results\.secret: is empty$/,
  ],
  ["webhooks", "a service below 0", { serviceId: -1 }, /^serviceId: must be at least 0, not -1$/],
  [
    "webhooks",
    "an unknown durability",
    inPostern({ redis: { durability: "lax" } }),
    /^postern: redis\.durability: must be "strict", "replicated", "managed" or "relaxed"/,
  ],
  [
    "webhooks",
    "a limit of 0",
    inPostern({ limits: { queue_depth_max: 0 } }),
    /^postern: limits\.queue_depth_max: must be at least 1, not 0$/,
  ],
  [
    "webhooks",
    "a budget smaller than a body",
    inPostern({ http: { body_budget_bytes: 1000 } }),
    /^postern: http\.body_budget_bytes: must be at least 1048576/,
  ],
  [
    "webhooks",
    "every address as a trusted proxy",
    inPostern({ http: { trusted_proxies: ["0.0.0.0/0"] } }),
    /^postern: http\.trusted_proxies\[0\]: must not cover every address/,
  ],
  [
    "webhooks",
    "an unknown proxy header",
    inPostern({ http: { forwarded_header: "Forwarded" } }),
    /^postern: http\.forwarded_header: is not used: trusted_proxies is empty/,
  ],
  [
    "webhooks",
    "a callback receiver without callbacks",
    hook({ callback_url: "https://hooks.example.com" }),
    /callback_url: needs \[callbacks\] with a secret in postern\.toml/,
  ],
  ["webhooks", "a table that does not exist", { hooks: {} }, /^hooks: unknown key/],
  [
    "webhooks",
    "a mount path with a trailing slash",
    { mountPath: "/postern/" },
    /^mountPath: must be a path/,
  ],
  [
    "webhooks",
    "an invalid log",
    { log: { info() {} } },
    /^log: must have the functions info, warn and error$/,
  ],
  [
    "x402",
    "no token",
    x402({ accepted_tokens: [] }),
    /^x402: accepted_tokens: must list at least one token$/,
  ],
  [
    "x402",
    "a repeated token",
    x402({ accepted_tokens: [token, token] }),
    /^x402: accepted_tokens\[1\]\.asset: must be unique: it repeats accepted_tokens\[0\]$/,
  ],
  [
    "x402",
    "a token without a node",
    x402({ accepted_tokens: [{ ...token, rpc_url: undefined }] }),
    /^x402: accepted_tokens\[0\]\.rpc_url: is missing: .*trust_facilitator = true/,
  ],
  [
    "x402",
    "a token without its domain",
    x402({ accepted_tokens: [{ ...token, eip3009_name: undefined }] }),
    /^x402: accepted_tokens\[0\]\.eip3009_name: is missing: .*transfer_method = "permit2"/,
  ],
  [
    "x402",
    "a rate outside its limits",
    x402({ accepted_tokens: [{ ...token, max_rate: "3000" }] }),
    /^x402: accepted_tokens\[0\]\.rate_per_native_unit: 3200 is above max_rate \(3000\)$/,
  ],
  [
    "x402",
    "no facilitator",
    x402({ facilitator_url: undefined }),
    /^x402: facilitator_url: is missing: set facilitator_url or \[\[facilitators\]\]$/,
  ],
  ["x402", "a price of nothing", jobs({ price_wei: "0" }), /^job_pricing: 1\.7\.price_wei: must be above 0$/],
  [
    "x402",
    "a price that is half a wei",
    jobs({ price_wei: "0.5" }),
    /^job_pricing: 1\.7\.price_wei: must be an integer in wei/,
  ],
  [
    "x402",
    "a price that no payment of a token can carry",
    { ...x402({ accepted_tokens: [{ ...token, decimals: 36 }] }), ...jobs({ price_wei: `${2n ** 250n}` }) },
    /^job_pricing: 1\.7: is more than 2\^256-1 units of accepted_tokens\[0\] in x402\.toml$/,
  ],
  ["x402", "an unknown key of a job", jobs({ markup: 0 }), /^job_pricing: 1\.7\.markup: unknown key/],
  ["x402", "no jobs", { job_pricing: undefined }, /^job_pricing: is missing$/],
  ["x402", "an invalid name", jobs({ name: "A Job" }), /^job_pricing: 1\.7\.name: must be 1 to 32/],
  [
    "x402",
    "an example that does not match its schema",
    jobs({ input_schema: { type: "object" }, input_example: 7 }),
    /^job_pricing: 1\.7\.input_example: /,
  ],
  [
    "x402",
    "a policy without its contract",
    x402({
      job_policies: [
        {
          ...{ service_id: 1, job_index: 7, invocation_mode: "restricted_paid" },
          ...{ rpc_url: token.rpc_url, auth_mode: "payer_is_caller" },
        },
      ],
    }),
    /^x402: job_policies\[0\]\.contract: is missing$/,
  ],
  [
    "x402",
    "operators without a domain",
    x402({ quote_operators: [ADDRESS] }),
    /^x402: quote_domain: is missing: it must match/,
  ],
  [
    "x402",
    "a time-out that no payment survives",
    x402({ max_timeout_secs: 20 }),
    /^x402: max_timeout_secs: must be above settle_timeout_secs \+ 10/,
  ],
  ["x402", "an invalid authorize", { authorize: "x" }, /^authorize: must be a function$/],
  ["producer", "nowhere to go", inPostern({}), /^postern: runner\.url: is missing: set it, or inject$/],
  [
    "producer",
    "a postern that is not a table, besides inject",
    { postern: 7, inject: async () => {} },
    /^postern: must be an object$/,
  ],
  [
    "producer",
    "a time-out that inject does not have",
    { ...inPostern({ jobs: { "0/1": { timeout_ms: 5 } } }), inject: async () => {} },
    /^postern: jobs\.0\/1\.timeout_ms: is not used: inject gets every call$/,
  ],
  [
    "producer",
    "two destinations",
    { inject: async () => {} },
    /^postern: runner: is not used: inject gets every call$/,
  ],
  [
    "producer",
    "a runner without its URL",
    inPostern({ runner: { secret: SECRET } }),
    /^postern: runner\.url: is missing/,
  ],
  [
    "producer",
    "no attempt",
    ofProducer({ producer: { attempts: 0 } }),
    /^postern: producer\.attempts: must be at least 1, not 0$/,
  ],
  [
    "producer",
    "a decreasing backoff",
    ofProducer({ producer: { backoff: { base_ms: 5000, cap_ms: 1000 } } }),
    /^postern: producer\.backoff\.cap_ms: must be at least base_ms$/,
  ],
  [
    "producer",
    "a lock shorter than an injection",
    ofProducer({ producer: { lock_ms: 5000 } }),
    /^postern: runner\.timeout_ms: must be below producer\.lock_ms/,
  ],
  ["producer", "an invalid job", ofProducer({ jobs: { one: { attempts: 3 } } }), /^postern: jobs\.one: /],
  [
    "producer",
    "an unknown runner",
    ofProducer({ jobs: { "0/1": { runner: "fast" } } }),
    /^postern: jobs\.0\/1\.runner: must be a configured runner, not "fast"/,
  ],
  ["producer", "an option that does not exist", { slots: 3 }, /^slots: unknown key/],
  ["producer", "an origin that does not exist", { origins: ["mail"] }, /^origins\[0\]: must be/],
  ["runner", "no router", { jobs: [] }, /^jobs: must be a router that createRouter\(\) returned$/],
  [
    "runner",
    "an empty secret",
    ofRunner({ secret: [SECRET, ""] }),
    /^postern: runner\.secret\[1\]: is empty$/,
  ],
  [
    "runner",
    "answers kept longer than their keys",
    ofRunner({ memory_secs: 10, answer_secs: 20 }),
    /^postern: runner\.answer_secs: must be at most memory_secs/,
  ],
  [
    "runner",
    "a lease of 0",
    ofRunner({ lease_ms: 0 }),
    /^postern: runner\.lease_ms: must be at least 1000, not 0$/,
  ],
  [
    "runner",
    "an option of the previous release",
    ofRunner({ memory_ms: 10 }),
    /^postern: runner\.memory_ms: unknown key/,
  ],
];
const wrongByPart = Object.keys(makers).map((part) => wrong.filter(([of]) => of === part));

test.each(wrongByPart.flatMap((rows) => sample(rows, 5)))(
  "a %s with %s is not created, and the error names the option",
  async (part, _, change, line) => {
    expect(await problems(part, change)).toEqual([expect.stringMatching(line)]);
  },
);

test("one error lists all wrong options, and contains no secret", async () => {
  const found = await problems("x402", {
    ...x402({ public_url: "x", quote_secret: 7, facilitator_headers: { Authorization: `${SECRET}\n` } }),
    ...inPostern({ limits: { queue_bytes_max: 0 } }),
    ...jobs({ price_wei: "-1" }),
    redis: 7,
  });
  const names = ["redis", "x402: public_url", "x402: quote_secret", "postern: limits.queue_bytes_max"];
  for (const name of [...names, "job_pricing: 1.7.price_wei", "x402: facilitator_headers.Authorization"])
    expect(found).toContainEqual(expect.stringContaining(`${name}: `));
  expect(found.join()).not.toContain(SECRET);
});

test("options that are allowed but unwise are logged with the names of the configuration files", async () => {
  const log = recordingLog();
  const gateway = makers.webhooks({ ...hook({ secret: "short" }), log });
  await gateway.close(0);
  expect(log.events).toContainEqual(
    expect.objectContaining({
      event: "config.warning",
      fields: {
        warning: expect.stringMatching(
          /^webhooks\.toml: endpoint \/hooks\/a: secret: the secret has only 5 bytes/,
        ),
      },
    }),
  );
});

describe("a host's own Redis connection", () => {
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
    "is refused by a %s if it would queue requests or send a write twice, and the error names the setting",
    async (part) => {
      expect(await ofSettings(part, fast)).toEqual([]);
      expect(await ofSettings(part, {})).toEqual([
        "redis: must be created with enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, commandTimeout: 1500, so that requests are answered while Redis is unavailable, and no write is sent twice",
      ]);
      expect(await ofSettings(part, { ...fast, commandTimeout: undefined })).toEqual([
        expect.stringMatching(/^redis: must be created with commandTimeout: 1500, so that /),
      ]);
    },
  );

  test("is refused by a producer if it limits retries of commands, and the error names the setting", async () => {
    expect(await ofSettings("producer", { maxRetriesPerRequest: null })).toEqual([]);
    expect(await ofSettings("producer", {})).toEqual([
      "redis: must be created with maxRetriesPerRequest: null, so that calls wait until Redis is available again",
    ]);
    expect(await ofSettings("producer", { maxRetriesPerRequest: null, enableOfflineQueue: false })).toEqual([
      expect.stringMatching(/^redis: must be created with enableOfflineQueue: true, so that /),
    ]);
  });

  test("is refused if it prefixes all keys, has sentinels, or is not a connection", async () => {
    expect(await ofSettings("webhooks", { ...fast, keyPrefix: "mine:" })).toEqual([
      expect.stringMatching(/^redis: must have no keyPrefix/),
    ]);
    const sentinels = [{ host: "127.0.0.1", port: 26379 }];
    expect(await ofSettings("webhooks", { ...fast, sentinels, name: "mymaster" })).toEqual([
      "redis: must have no sentinels: set sentinels in redis of postern",
    ]);
    for (const redis of [{}, 6379, null, { url: REDIS }, REDIS])
      expect(await problems("webhooks", { redis })).toEqual([
        "redis: must be an ioredis connection; set a URL, sentinels or nodes in redis of postern",
      ]);
    expect(await problems("webhooks", inPostern({ redis: { url: "http://127.0.0.1" } }))).toEqual([
      expect.stringMatching(/^postern: redis\.url: must be a redis:\/\//),
    ]);
  });
});
