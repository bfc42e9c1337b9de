import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { readPricing } from "../../../shared/pricing/read-pricing.ts";
import { KEY } from "../../fixtures/pricing.ts";
import { tempDir } from "../../support/temp-dir.ts";

const CONTRACT = "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF";
const ENV = { KEY, EMPTY: "", SHORT: "0x12", ZERO: `0x${"0".repeat(64)}`, LONG: `${KEY}0` };
const DOMAIN = `[domain]\nchain_id = 31337\nverifying_contract = "${CONTRACT}"\n`;
const PRICES = '[42]\n3 = "1000000000000000000"\n';

type Files = { pricing?: string; prices?: string };

function load({ pricing = `key = "env:KEY"\n${DOMAIN}`, prices = PRICES }: Files, env = ENV) {
  const dir = tempDir();
  writeFileSync(join(dir, "pricing.toml"), pricing);
  writeFileSync(join(dir, "job_pricing.toml"), prices);
  return loadConfig(readPricing, { dir, env });
}

function problems(files: Files): string[] {
  try {
    load(files);
    return [];
  } catch (error) {
    return messageOf(error).split("\n");
  }
}

test("keys with a default may be left out of pricing.toml", () => {
  const { pricing, jobs, warnings } = load({});
  expect(pricing).toMatchObject({
    bind_address: "0.0.0.0:50051",
    http_address: "0.0.0.0:8404",
    domain: { name: "TangleQuote", version: "1", chainId: 31337, verifyingContract: CONTRACT },
    pow_difficulty: 20,
    quote_ttl_secs: 300,
  });
  expect(pricing?.key.reveal()).toBe(KEY);
  expect([...jobs.keys()]).toEqual(["42/3"]);
  expect(warnings).toEqual([]);
});

test("the pricing engine's HTTP can be disabled", () => {
  const { pricing } = load({ pricing: `http_address = false\nkey = "env:KEY"\n${DOMAIN}` });
  expect(pricing?.http_address).toBe(false);
});

test("the pricing engine's key may come from a file", () => {
  const path = join(tempDir(), "key");
  writeFileSync(path, `${KEY}\n`);
  expect(load({ pricing: `key = "file:${path}"\n${DOMAIN}` }).pricing?.key.reveal()).toBe(KEY);
});

describe("the example file", () => {
  const example = readFileSync(new URL("../../../config/example/pricing.toml", import.meta.url), "utf8");
  const ZERO = `0x${"0".repeat(40)}`;

  test("the example pricing.toml is refused until the key is set and the contract replaced", () => {
    expect(problems({ pricing: example })).toEqual([
      expect.stringMatching(/key: names the environment variable POSTERN_PRICING_KEY/),
      expect.stringMatching(/domain\.verifying_contract: must not be the zero address/),
    ]);
  });

  test("the example pricing.toml states the true defaults", () => {
    const filled = example.replace("env:POSTERN_PRICING_KEY", "env:KEY").replace(ZERO, CONTRACT);
    const { pricing, warnings } = load({ pricing: filled });
    const least = load({}).pricing;
    expect(pricing).toEqual({ ...least, domain: { ...least?.domain, chainId: 8453 } });
    expect(warnings).toEqual([]);
  });
});

describe("the key", () => {
  test.each([
    ["missing", "", /key: is missing$/],
    [
      "the key itself",
      `key = "${KEY}"`,
      /key: must be env:VAR or file:\/path: the key itself must not be in this file/,
    ],
    ["a number", "key = 5", /key: must be a string/],
    [
      "an environment variable that is not set",
      'key = "env:NOPE"',
      /key: names the environment variable NOPE, which is not set$/,
    ],
    ["empty", 'key = "env:EMPTY"', /key: is empty$/],
    ["a file that is not there", 'key = "file:/nowhere/key"', /key: names a file that cannot be read/],
    ["too short", 'key = "env:SHORT"', /key: must be a private key/],
    ["zero", 'key = "env:ZERO"', /key: must be a private key/],
    ["a digit too long", 'key = "env:LONG"', /key: must be a private key/],
  ])("a pricing.toml whose key is %s is refused, without the key in the message", (_, line, problem) => {
    const found = problems({ pricing: `${line}\n${DOMAIN}` });
    expect(found).toEqual([expect.stringMatching(problem)]);
    expect(found[0]).toContain("pricing.toml");
    expect(found.join()).not.toContain(KEY.slice(2));
  });
});

describe("invalid files", () => {
  const key = 'key = "env:KEY"';
  test.each([
    ["an unknown key", `${key}\nx402 = true\n${DOMAIN}`, /pricing\.toml:2: x402: unknown key/],
    ["no domain", key, /pricing\.toml: domain: /],
    ["no chain", `${key}\n[domain]\nverifying_contract = "${CONTRACT}"`, /domain\.chain_id: /],
    ["no contract", `${key}\n[domain]\nchain_id = 1`, /domain\.verifying_contract: /],
    [
      "the zero address",
      `${key}\n[domain]\nchain_id = 1\nverifying_contract = "0x${"0".repeat(40)}"`,
      /domain\.verifying_contract: must not be the zero address/,
    ],
    [
      "a wrong checksum",
      `${key}\n[domain]\nchain_id = 1\nverifying_contract = "0xdeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF"`,
      /verifying_contract: must have a valid EIP-55 checksum/,
    ],
    ["a difficulty of 33", `${key}\npow_difficulty = 33\n${DOMAIN}`, /pow_difficulty: /],
    ["a negative difficulty", `${key}\npow_difficulty = -1\n${DOMAIN}`, /pow_difficulty: /],
    ["a life of nothing", `${key}\nquote_ttl_secs = 0\n${DOMAIN}`, /quote_ttl_secs: /],
    [
      "an address without a port",
      `${key}\nbind_address = "0.0.0.0"\n${DOMAIN}`,
      /bind_address: has no port: must be "host:port"/,
    ],
    [
      "an http address that is true",
      `${key}\nhttp_address = true\n${DOMAIN}`,
      /http_address: must be "host:port", or false/,
    ],
  ])("a pricing.toml with %s is refused, and the message names file and key", (_, pricing, problem) => {
    expect(problems({ pricing })).toContainEqual(expect.stringMatching(problem));
  });

  test.each(["1", "2", "50", "99"])(
    "a price of %s wei, which the contracts refuse, is refused with its job",
    (price) => {
      expect(problems({ prices: `[42]\n3 = "${price}"\n4 = "100"\n` })).toEqual([
        expect.stringMatching(/job_pricing\.toml:\d+: 42\.3: must be at least 100 wei/),
      ]);
    },
  );

  test("a price of zero is refused with its job", () => {
    expect(problems({ prices: '[42]\n3 = "0"\n' })).toEqual([
      expect.stringMatching(/job_pricing\.toml:\d+: 42\.3: must be above 0/),
    ]);
  });

  test("all problems of pricing.toml and job_pricing.toml are reported at once", () => {
    expect(problems({ pricing: "pow_difficulty = 65", prices: '[42]\n3 = "7"\n' })).toHaveLength(4);
  });
});

test("a job that no quote can name is permitted with a warning", () => {
  const { jobs, warnings } = load({ prices: `${PRICES}256 = "1000"\n255 = "1000"\n` });
  expect(jobs.size).toBe(3);
  expect(warnings).toEqual([expect.stringMatching(/job 42\/256 cannot be quoted/)]);
});

test.each([
  [24, []],
  [
    25,
    [expect.stringMatching(/pricing\.toml: pow_difficulty: few clients can find 25 zero bits within 30 s/)],
  ],
  [32, [expect.stringMatching(/pow_difficulty: few clients can find 32 zero bits/)]],
])("a difficulty of %d is accepted, with a warning if few clients could meet it", (difficulty, expected) => {
  const { warnings } = load({ pricing: `key = "env:KEY"\npow_difficulty = ${difficulty}\n${DOMAIN}` });
  expect(warnings).toEqual(expected);
});
