import { join } from "node:path";
import { inspect } from "node:util";
import type { TomlTable } from "smol-toml";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { tempDir } from "../../support/temp-dir.ts";

const FEED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const chainlink = {
  source: "chainlink",
  rpc_url: "https://node.example.com/v2/canary",
  feed: FEED,
  max_age_secs: 3600,
};
const pool = {
  source: "uniswap_v3_twap",
  rpc_url: "https://node.example.com",
  pool: FEED,
  native_token: FEED,
};
const http = { source: "http_json", url: "https://rates.example.com/eth?key=canary", pointer: "/price" };
const median = { source: "median", of: [chainlink, pool, http], max_deviation_bps: 50 };
const bounds = { min_rate: "1000", max_rate: "10000" };

function load(
  token: TomlTable,
  { top = {}, jobs = {}, env = {} }: { top?: TomlTable; jobs?: TomlTable; env?: object } = {},
) {
  const dir = join(tempDir(), "config");
  writeConfig(dir, {
    x402: {
      public_url: "https://jobs.example.com",
      facilitator_url: "https://facilitator.example.com",
      quote_secret: "a quote secret of one's own",
      ...top,
      accepted_tokens: [
        {
          network: "eip155:8453",
          asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
          symbol: "USDC",
          decimals: 6,
          pay_to: FEED,
          rpc_url: "https://node.example.com",
          eip3009_name: "USD Coin",
          eip3009_version: "2",
          ...token,
        },
      ],
    },
    job_pricing: { "1": { "7": "1000000000000000", ...jobs } },
  });
  return loadConfig(readX402, { dir, env: env as Record<string, string> });
}

const rateOf = (...args: Parameters<typeof load>) =>
  load(...args).x402?.accepted_tokens[0]?.rate_per_native_unit;

function problems(...args: Parameters<typeof load>): string[] {
  try {
    load(...args);
    return [];
  } catch (error) {
    return (error as Error).message
      .split("\n")
      .map((line) => line.replace(/^.*\/([^/]*\.toml)(?::\d+)?(?=: )/, "$1"));
  }
}

test("a fixed rate source becomes its number", () => {
  expect(rateOf({ rate_per_native_unit: { source: "fixed", rate: "3200.5" } })).toBe("3200.5");
});

test("rate sources have the defaults of the example", () => {
  expect(rateOf({ rate_per_native_unit: median, ...bounds })).toMatchObject({
    source: "median",
    min_sources: 2,
    max_deviation_bps: 50,
    of: [
      { source: "chainlink", feed: FEED, invert: false, sequencer_grace_secs: 3600 },
      { source: "uniswap_v3_twap", window_secs: 1800, max_age_secs: 600 },
      { source: "http_json", pointer: "/price", headers: {} },
    ],
  });
  expect(load({ rate_per_native_unit: http }).x402?.accepted_tokens[0]).toMatchObject({
    rate_refresh_secs: 60,
    max_rate_age_secs: 900,
  });
});

test("a max_rate_age_secs of two refreshes and 15 s is accepted, so that one read may fail", () => {
  expect(problems({ rate_per_native_unit: http, rate_refresh_secs: 60, max_rate_age_secs: 135 })).toEqual([]);
});

test("a rate source at the top applies to every token without its own", () => {
  expect(rateOf(bounds, { top: { rate_per_native_unit: chainlink } })).toMatchObject({ feed: FEED });
});

test("URLs of nodes and rates and their headers come from the environment and cannot be printed", () => {
  const source = { ...http, url: "env:RATES_URL", headers: { Authorization: "env:RATES_TOKEN" } };
  const env = { RATES_URL: "https://rates.example.com/canary", RATES_TOKEN: "Bearer canary-canary" };
  const { x402 } = load({ rate_per_native_unit: { ...median, of: [chainlink, source] } }, { env });
  expect(inspect(x402, { depth: 20 }) + JSON.stringify(x402)).not.toContain("canary");
});

describe("invalid sources", () => {
  const at = (rest: string) => new RegExp(`accepted_tokens\\[0\\]\\.rate_per_native_unit${rest}`);
  test.each([
    ["an unknown source", { source: "oracle" }, at('\\.source: must be "fixed", .* or "median"$')],
    ["a table without source", { rate: "1" }, at('\\.source: must be "fixed", .* or "median"$')],
    ["a feed with an unknown key", { ...chainlink, decimals: 8 }, at("\\.decimals: unknown key")],
    ["a feed without max_age_secs", { ...chainlink, max_age_secs: undefined }, at("\\.max_age_secs")],
    ["a feed that is no address", { ...chainlink, feed: "0x12" }, at("\\.feed: must be an address")],
    [
      "a node over plain http",
      { ...chainlink, rpc_url: "http://node.example.com" },
      at("\\.rpc_url: must be an https URL"),
    ],
    [
      "a node whose URL must not be the placeholder",
      { ...chainlink, rpc_url: "replace-this-rpc-url" },
      at("\\.rpc_url: must not be the placeholder"),
    ],
    ["a pool with a window below a minute", { ...pool, window_secs: 59 }, at("\\.window_secs")],
    ["a pool with blocks of any age", { ...pool, max_age_secs: 0 }, at("\\.max_age_secs")],
    ["a pool without native_token", { ...pool, native_token: undefined }, at("\\.native_token")],
    ["a plain http URL", { ...http, url: "http://rates.example.com" }, at("\\.url: must be an https URL")],
    [
      "a plain http URL even on this machine",
      { ...http, url: "http://127.0.0.1:1" },
      at("\\.url: must be an https URL"),
    ],
    [
      "a URL with a user",
      { ...http, url: "https://a:b@rates.example.com" },
      at("\\.url: must be an https URL"),
    ],
    [
      "a URL with an invalid pointer",
      { ...http, pointer: "price" },
      at("\\.pointer: must be a JSON Pointer"),
    ],
    [
      "a URL with a pointer with an invalid escape",
      { ...http, pointer: "/a~2" },
      at("\\.pointer: must be a JSON Pointer"),
    ],
    [
      "a URL with a header that the client sets",
      { ...http, headers: { Host: "a" } },
      at("\\.headers\\.Host: must not be set: the gateway sets it"),
    ],
    ["a median of one", { ...median, of: [http] }, at("\\.of: must list at least two")],
    [
      "a median of a median",
      { ...median, of: [http, median] },
      at('\\.of\\[1\\]\\.source: must be "fixed", .* or "http_json"$'),
    ],
    [
      "a median's source that is wrong",
      { ...median, of: [http, { ...http, url: "x" }] },
      at("\\.of\\[1\\]\\.url"),
    ],
    [
      "a median without max_deviation_bps",
      { ...median, max_deviation_bps: undefined },
      at("\\.max_deviation_bps"),
    ],
    [
      "a median that wants more sources than there are",
      { ...median, min_sources: 4 },
      at("\\.min_sources: must be at most 3, the number of sources"),
    ],
    ["a fixed rate of zero", { source: "fixed", rate: "0" }, at("\\.rate: must be above 0")],
  ] as [string, TomlTable, RegExp][])(
    "a rate from %s is refused, and its key is named",
    (_what, rate, problem) => {
      const given = Object.fromEntries(Object.entries(rate).filter(([, value]) => value !== undefined));
      expect(problems({ rate_per_native_unit: given })).toEqual([expect.stringMatching(problem)]);
    },
  );

  test.each([
    [
      "bounds the wrong way round",
      { rate_per_native_unit: http, min_rate: "10", max_rate: "9.99" },
      /min_rate: must be at most max_rate/,
    ],
    [
      "a fixed rate outside its bounds",
      { rate_per_native_unit: "1", min_rate: "1.01" },
      /rate_per_native_unit: 1 is below min_rate/,
    ],
    [
      "a bound that is no number",
      { rate_per_native_unit: http, min_rate: "1e3" },
      /min_rate: must be a decimal number/,
    ],
    [
      "an age no refresh could keep to",
      { rate_per_native_unit: http, rate_refresh_secs: 60, max_rate_age_secs: 134 },
      /max_rate_age_secs: must be at least 135 \(2 \* rate_refresh_secs \+ 15\)/,
    ],
  ] as [string, TomlTable, RegExp][])(
    "a token with %s is refused, and the key is named",
    (_what, token, problem) => {
      expect(problems(token)).toEqual([expect.stringMatching(problem)]);
    },
  );

  test("a job whose price at a rate's bound is too large for a payment is refused", () => {
    const found = problems(
      { rate_per_native_unit: http, min_rate: "0.0000001", max_rate: "1" },
      { jobs: { "8": "1000000000", "9": String(10n ** 77n) } },
    );
    expect(found).toEqual([]);
    const wide = { rate_per_native_unit: http, min_rate: "1", max_rate: "1000000000000000000" };
    expect(problems({ ...wide, decimals: 18 }, { jobs: { "9": String(10n ** 77n) } })).toEqual([
      expect.stringMatching(/^job_pricing.toml: 1\.9: .*accepted_tokens\[0\] in x402\.toml at its max_rate$/),
    ]);
  });

  test("all problems of a token's rate are reported at once", () => {
    const token = {
      rate_per_native_unit: {
        ...median,
        of: [
          { ...chainlink, feed: "x" },
          { ...http, pointer: "p" },
        ],
      },
      min_rate: "9",
      max_rate: "8",
      nope: 1,
    };
    expect(
      problems(token)
        .map((line) => line.split(": ")[1])
        .sort(),
    ).toEqual([
      "accepted_tokens[0].min_rate",
      "accepted_tokens[0].nope",
      "accepted_tokens[0].rate_per_native_unit.of[0].feed",
      "accepted_tokens[0].rate_per_native_unit.of[1].pointer",
    ]);
  });
});

test("a rate source without both bounds causes a warning, but a fixed rate does not", () => {
  const warnings = (token: TomlTable) => load(token).warnings.filter((line) => line.includes("_rate"));
  expect(warnings({ rate_per_native_unit: "3200" })).toEqual([]);
  expect(warnings({ rate_per_native_unit: http, ...bounds })).toEqual([]);
  expect(warnings({ rate_per_native_unit: http, min_rate: "1000" })).toEqual([
    expect.stringMatching(
      /^x402\.toml: accepted_tokens\[0\]: the rate from http_json has no max_rate, so a wrong source can set any price$/,
    ),
  ]);
});
