import { describe, expect, test } from "vitest";
import { createPricingService, type PricingOptions } from "../../../services/pricing/pricing.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { KEY, PRICING } from "../../fixtures/pricing.ts";
import { useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();

/** Makes an engine with these options, and closes it. */
async function make(change: object): Promise<void> {
  const options = { postern: { redis: { url: redis.url } }, ...PRICING, ...change };
  await createPricingService(options as PricingOptions).close();
}

/** Returns the lines of `start.config_invalid`; none if the engine was made. */
async function problems(change: object): Promise<string[]> {
  try {
    await make(change);
    return [];
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.config_invalid") throw error;
    return error.message.split("\n");
  }
}

const pricing = (change: object) => ({ pricing: { ...PRICING.pricing, ...change } });
const domain = (change: object) => pricing({ domain: { ...PRICING.pricing.domain, ...change } });
const price = (wei: unknown) => ({ job_pricing: { 42: { 3: wei, 4: "1000" } } });

test.each<[string, object, RegExp]>([
  [
    "a difficulty of 33",
    pricing({ pow_difficulty: 33 }),
    /^pricing: pow_difficulty: must be at most 32, not 33$/,
  ],
  [
    "a difficulty below 0",
    pricing({ pow_difficulty: -1 }),
    /^pricing: pow_difficulty: must be at least 0, not -1$/,
  ],
  [
    "half a bit of difficulty",
    pricing({ pow_difficulty: 8.5 }),
    /^pricing: pow_difficulty: must be an integer$/,
  ],
  [
    "a difficulty as text",
    pricing({ pow_difficulty: "20" }),
    /^pricing: pow_difficulty: must be an integer$/,
  ],
  [
    "quotes that do not last",
    pricing({ quote_ttl_secs: 0 }),
    /^pricing: quote_ttl_secs: must be at least 1, not 0$/,
  ],
  [
    "quotes that last for two days",
    pricing({ quote_ttl_secs: 172_800 }),
    /^pricing: quote_ttl_secs: must be at most 86400, not 172800$/,
  ],
  [
    "quotes that last for a time that is no number",
    pricing({ quote_ttl_secs: Number.NaN }),
    /^pricing: quote_ttl_secs: must be an integer/,
  ],
  ["another key than a private one", pricing({ key: "0x12" }), /^pricing: key: must be a private key/],
  ["no domain", pricing({ domain: undefined }), /^pricing: domain: is missing$/],
  ["a domain without a name", domain({ name: "" }), /^pricing: domain\.name: is empty$/],
  ["a domain without a version", domain({ version: "" }), /^pricing: domain\.version: is empty$/],
  ["chain 0", domain({ chain_id: 0 }), /^pricing: domain\.chain_id: must be at least 1, not 0$/],
  [
    "the zero address",
    domain({ verifying_contract: `0x${"0".repeat(40)}` }),
    /^pricing: domain\.verifying_contract: must not be the zero/,
  ],
  [
    "a wrong checksum",
    domain({ verifying_contract: PRICING.pricing.domain.verifying_contract.replace("f", "F") }),
    /must have a valid EIP-55 checksum/,
  ],
  ["a price of nothing", price("0"), /^job_pricing: 42\.3: must be above 0$/],
  ["a price below 100 wei", price("99"), /^job_pricing: 42\.3: must be at least 100 wei/],
  ["a price above 2^256-1", price(`${2n ** 256n}`), /^job_pricing: 42\.3: must be at most 2\^256-1$/],
  ["a price as a number", price(1000), /^job_pricing: 42\.3: must be quoted/],
  ["a service below 0", { job_pricing: { "-1": { 3: "1000" } } }, /^job_pricing: -1: /],
  ["a job index of 2^32", { job_pricing: { 1: { [2 ** 32]: "1000" } } }, /^job_pricing: 1\.4294967296: /],
  [
    "an unknown durability",
    { postern: { redis: { durability: "lax" } } },
    /^postern: redis\.durability: must be "strict", "replicated", "managed" or "relaxed"$/,
  ],
  [
    "a proxy that is everybody",
    { postern: { http: { trusted_proxies: ["0.0.0.0/0"] } } },
    /^postern: http\.trusted_proxies\[0\]: must not cover every address/,
  ],
  [
    "a proxy that is no address",
    { postern: { http: { trusted_proxies: ["proxy"] } } },
    /^postern: http\.trusted_proxies\[0\]: /,
  ],
])("an engine with %s is refused, and the message names the option", async (_, change, reason) => {
  expect(await problems(change)).toEqual([expect.stringMatching(reason)]);
});

test("an engine with several invalid options is refused with all of them, without its key", async () => {
  const key = KEY.slice(0, 60);
  const found = await problems(pricing({ key, pow_difficulty: 99, domain: { chain_id: -1 } }));
  expect(found.map((line) => line.split(": ")[1]).sort()).toEqual([
    "domain.chain_id",
    "domain.verifying_contract",
    "key",
    "pow_difficulty",
  ]);
  expect(found.join()).not.toContain(KEY.slice(2, 40));
});

describe("the settlement through x402", () => {
  const token = {
    network: "eip155:31337",
    asset: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    symbol: "USDC",
    decimals: 6,
    markup_bps: 200,
    pay_to: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    rate_per_native_unit: "3200",
    eip3009_name: "USD Coin",
    eip3009_version: "2",
  };

  const settled = (change: object, ofToken: object = {}) =>
    problems({
      settlement: {
        ...{ public_url: "https://pay.example.com", accepted_tokens: [{ ...token, ...ofToken }] },
        ...change,
      },
    });
  const at = "settlement: accepted_tokens\\[0\\]";

  test.each<[string, object, object, string]>([
    ["an invalid URL", { public_url: "pay" }, {}, "settlement: public_url: must be an http or https URL$"],
    [
      "a rate of nothing",
      {},
      { rate_per_native_unit: "0" },
      `${at}\\.rate_per_native_unit: must be above 0$`,
    ],
    [
      "a rate as a number",
      {},
      { rate_per_native_unit: 3200 },
      `${at}\\.rate_per_native_unit: must be quoted`,
    ],
    [
      "a rate above its limit",
      {},
      { max_rate: "3000" },
      `${at}\\.rate_per_native_unit: 3200 is above max_rate`,
    ],
    ["37 decimals", {}, { decimals: 37 }, `${at}\\.decimals: must be at most 36, not 37$`],
    ["a markup below 0", {}, { markup_bps: -1 }, `${at}\\.markup_bps: must be at least 0, not -1$`],
    ["an unknown network", {}, { network: "base" }, `${at}\\.network: must be "eip155:"`],
    ["an invalid recipient", {}, { pay_to: "0x0" }, `${at}\\.pay_to: must be an address`],
  ])(
    "a settlement with %s is refused, and the message names the option",
    async (_, change, ofToken, reason) => {
      expect(await settled(change, ofToken)).toEqual([expect.stringMatching(new RegExp(`^${reason}`))]);
    },
  );

  test("a settlement may have a rate that is read from its source", async () => {
    const source = { source: "http_json", url: "https://rates.example.com", pointer: "/price" };
    expect(await settled({}, { rate_per_native_unit: source })).toEqual([]);
  });
});
