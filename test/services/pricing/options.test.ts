import { beforeAll, describe, expect, test } from "vitest";
import {
  type AcceptedToken,
  createPricingService,
  type PricingOptions,
  type PricingService,
  type X402Settlement,
} from "../../../services/pricing/pricing.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { DIFFICULTY, DOMAIN, JOBS, KEY, usePricing } from "../../fixtures/pricing.ts";
import { TOKENS } from "./x402-settlement.ts";

const pricing = usePricing();

function make(change: object): PricingService {
  const options: PricingOptions = {
    ...{ jobs: JOBS, key: { reveal: () => KEY }, domain: DOMAIN, powDifficulty: DIFFICULTY },
    ...{ quoteTtlSecs: 300, maxQuoteAgeSecs: 3600, redis: pricing.redis.client, durability: "strict" },
    ...change,
  };
  return createPricingService(options);
}

/** The lines of `start.config_invalid`; none if it was made. */
function problems(make: () => unknown): string[] {
  try {
    make();
    return [];
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "start.config_invalid") throw error;
    return error.message.split("\n");
  }
}

const job = { serviceId: 42, jobIndex: 3, priceWei: 1000n };
const jobs = (change: object) => ({
  jobs: [
    { ...job, jobIndex: 4 },
    { ...job, ...change },
  ],
});
const domain = (change: object) => ({ domain: { ...DOMAIN, ...change } });

test.each<[string, object, RegExp]>([
  ["a difficulty of 33", { powDifficulty: 33 }, /^powDifficulty: must be at most 32$/],
  ["a difficulty below 0", { powDifficulty: -1 }, /^powDifficulty: must be at least 0$/],
  ["half a bit of difficulty", { powDifficulty: 8.5 }, /^powDifficulty: must be a whole number/],
  ["no difficulty", { powDifficulty: undefined }, /^powDifficulty: is missing$/],
  ["quotes that do not last", { quoteTtlSecs: 0 }, /^quoteTtlSecs: must be at least 1$/],
  ["quotes that last for two days", { quoteTtlSecs: 172_800 }, /^quoteTtlSecs: must be at most 86400$/],
  ["quotes of no age", { maxQuoteAgeSecs: 0 }, /^maxQuoteAgeSecs: must be at least 1$/],
  [
    "quotes of an age that is no number",
    { maxQuoteAgeSecs: Number.NaN },
    /^maxQuoteAgeSecs: must be a number/,
  ],
  ["another key than a private one", { key: { reveal: () => "0x12" } }, /^key: must be a private key/],
  ["no domain", { domain: undefined }, /^domain: is missing$/],
  ["a domain without a name", domain({ name: "" }), /^domain\.name: is empty$/],
  ["a domain without a version", domain({ version: undefined }), /^domain\.version: is missing$/],
  ["chain 0", domain({ chainId: 0 }), /^domain\.chainId: must be at least 1$/],
  [
    "the zero address",
    domain({ verifyingContract: `0x${"0".repeat(40)}` }),
    /^domain\.verifyingContract: is the zero/,
  ],
  [
    "a wrong checksum",
    domain({ verifyingContract: DOMAIN.verifyingContract.replace("f", "F") }),
    /wrong checksum/,
  ],
  ["a price of nothing", jobs({ priceWei: 0n }), /^jobs\[1\]\.priceWei: must be above 0$/],
  ["a price below 100 wei", jobs({ priceWei: 99n }), /^jobs\[1\]\.priceWei: is below 100 wei/],
  ["a price above 2^256-1", jobs({ priceWei: 2n ** 256n }), /^jobs\[1\]\.priceWei: is above 2\^256-1$/],
  ["a price as a number", jobs({ priceWei: 1000 }), /^jobs\[1\]\.priceWei: must be a bigint/],
  ["a service below 0", jobs({ serviceId: -1 }), /^jobs\[1\]\.serviceId: /],
  ["a job index of 2^32", jobs({ jobIndex: 2 ** 32 }), /^jobs\[1\]\.jobIndex: /],
  ["a job twice", jobs({ jobIndex: 4 }), /^jobs\[1\]: is the same job as jobs\[0\]$/],
  ["an unknown durability", { durability: "lax" }, /^durability: must be "strict" or "relaxed"$/],
  [
    "a proxy that is everybody",
    { http: { trustedProxies: ["0.0.0.0/0"] } },
    /^http\.trustedProxies\[0\]: trusts everybody/,
  ],
  ["a proxy that is no address", { http: { trustedProxies: ["proxy"] } }, /^http\.trustedProxies\[0\]: /],
])("an engine with %s is not made, and the option is named", (_, change, reason) => {
  expect(problems(() => make(change))).toEqual([expect.stringMatching(reason)]);
});

test("an engine that is wrong in several options says so at once, and nothing of its key", () => {
  const key = { reveal: () => KEY.slice(0, 60) };
  const found = problems(() => make({ key, powDifficulty: 99, ...domain({ chainId: -1 }) }));
  expect(found.map((line) => line.split(":")[0]).sort()).toEqual(["domain.chainId", "key", "powDifficulty"]);
  expect(found.join()).not.toContain(KEY.slice(2, 40));
});

describe("the settlement through x402", () => {
  let service: PricingService;
  beforeAll(() => {
    service = make({});
    return () => service.close();
  });
  const [token] = TOKENS as [AcceptedToken];
  const source = { source: "chainlink", rpc_url: { reveal: () => "" }, feed: token.asset, max_age_secs: 60 };

  const settled = (change: object, ofToken: object = {}) => {
    const settlement = {
      endpoint: "https://pay.example.com",
      acceptedTokens: [{ ...token, ...ofToken }],
      ...change,
    };
    return problems(() => service.withX402Settlement(settlement as X402Settlement<AcceptedToken>));
  };

  test.each<[string, object, object, RegExp]>([
    [
      "an endpoint that is no URL",
      { endpoint: "pay.example.com" },
      {},
      /^endpoint: must be an http or https URL$/,
    ],
    [
      "a rate of nothing",
      {},
      { rate_per_native_unit: "0" },
      /^acceptedTokens\[0\]\.rate_per_native_unit: must be above 0$/,
    ],
    [
      "a rate as a number",
      {},
      { rate_per_native_unit: 3200 },
      /^acceptedTokens\[0\]\.rate_per_native_unit: must be quoted/,
    ],
    ["37 decimals", {}, { decimals: 37 }, /^acceptedTokens\[0\]\.decimals: must be at most 36$/],
    ["a markup below 0", {}, { markup_bps: -1 }, /^acceptedTokens\[0\]\.markup_bps: must be at least 0$/],
    ["no markup", {}, { markup_bps: undefined }, /^acceptedTokens\[0\]\.markup_bps: is missing$/],
    ["an unknown network", {}, { network: "base" }, /^acceptedTokens\[0\]\.network: must be "eip155:"/],
    ["nobody to pay", {}, { pay_to: "0x0" }, /^acceptedTokens\[0\]\.pay_to: must be an address/],
    [
      "a rate that nobody reads",
      {},
      { rate_per_native_unit: source },
      /^rateOf: is missing: .*acceptedTokens\[0\]/,
    ],
  ])("a settlement with %s is not made, and the option is named", (_, change, ofToken, reason) => {
    expect(settled(change, ofToken)).toEqual([expect.stringMatching(reason)]);
  });

  test("a settlement is made with rates that are read, and with more keys of the file's tokens than it needs", () => {
    expect(
      settled({ rateOf: () => undefined }, { rate_per_native_unit: source, eip3009_name: "USDC" }),
    ).toEqual([]);
  });
});
