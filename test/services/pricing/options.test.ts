import { describe, expect, test } from "vitest";
import { createPricingService, type PricingOptions } from "../../../services/pricing/pricing.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { DIFFICULTY, DOMAIN, JOBS, KEY } from "../../fixtures/pricing.ts";
import { useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();

/** Makes an engine with these options, and ends it. */
async function make(change: object): Promise<void> {
  const options = {
    ...{ jobs: JOBS, key: KEY, domain: DOMAIN, powDifficulty: DIFFICULTY, redis: redis.url },
    ...change,
  };
  await createPricingService(options as PricingOptions).close();
}

/** The lines of `start.config_invalid`; none if it was made. */
async function problems(change: object): Promise<string[]> {
  try {
    await make(change);
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
  ["a difficulty as text", { powDifficulty: "20" }, /^powDifficulty: must be a number$/],
  ["quotes that do not last", { quoteTtlSecs: 0 }, /^quoteTtlSecs: must be at least 1$/],
  ["quotes that last for two days", { quoteTtlSecs: 172_800 }, /^quoteTtlSecs: must be at most 86400$/],
  ["quotes of no age", { maxQuoteAgeSecs: 0 }, /^maxQuoteAgeSecs: must be at least 1$/],
  [
    "quotes of an age that is no number",
    { maxQuoteAgeSecs: Number.NaN },
    /^maxQuoteAgeSecs: must be a number/,
  ],
  ["another key than a private one", { key: "0x12" }, /^key: must be a private key/],
  ["no domain", { domain: undefined }, /^domain: is missing$/],
  ["a domain without a name", domain({ name: "" }), /^domain\.name: is empty$/],
  ["a domain without a version", domain({ version: "" }), /^domain\.version: is empty$/],
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
  ["a price as a number", jobs({ priceWei: 1000 }), /^jobs\[1\]\.priceWei: must be quoted/],
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
])("an engine with %s is not made, and the option is named", async (_, change, reason) => {
  expect(await problems(change)).toEqual([expect.stringMatching(reason)]);
});

test("an engine that is wrong in several options says so at once, and nothing of its key", async () => {
  const key = KEY.slice(0, 60);
  const found = await problems({ key, powDifficulty: 99, ...domain({ chainId: -1 }) });
  expect(found.map((line) => line.split(":")[0]).sort()).toEqual(["domain.chainId", "key", "powDifficulty"]);
  expect(found.join()).not.toContain(KEY.slice(2, 40));
});

describe("the settlement through x402", () => {
  const token = {
    network: "eip155:31337",
    asset: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    symbol: "USDC",
    decimals: 6,
    markupBps: 200,
    payTo: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    ratePerNativeUnit: "3200",
    eip3009Name: "USD Coin",
    eip3009Version: "2",
  };

  const settled = (change: object, ofToken: object = {}) =>
    problems({
      settlement: {
        ...{ publicUrl: "https://pay.example.com", acceptedTokens: [{ ...token, ...ofToken }] },
        ...change,
      },
    });
  const at = "settlement\\.acceptedTokens\\[0\\]";

  test.each<[string, object, object, string]>([
    ["a URL that is none", { publicUrl: "pay" }, {}, "settlement\\.publicUrl: must be an http or https URL$"],
    ["a rate of nothing", {}, { ratePerNativeUnit: "0" }, `${at}\\.ratePerNativeUnit: must be above 0$`],
    ["a rate as a number", {}, { ratePerNativeUnit: 3200 }, `${at}\\.ratePerNativeUnit: must be quoted`],
    ["a rate above its limit", {}, { maxRate: "3000" }, `${at}\\.ratePerNativeUnit: 3200 is above maxRate`],
    ["37 decimals", {}, { decimals: 37 }, `${at}\\.decimals: must be at most 36$`],
    ["a markup below 0", {}, { markupBps: -1 }, `${at}\\.markupBps: must be at least 0$`],
    ["an unknown network", {}, { network: "base" }, `${at}\\.network: must be "eip155:"`],
    ["nobody to pay", {}, { payTo: "0x0" }, `${at}\\.payTo: must be an address`],
  ])("a settlement with %s is not made, and the option is named", async (_, change, ofToken, reason) => {
    expect(await settled(change, ofToken)).toEqual([expect.stringMatching(new RegExp(`^${reason}`))]);
  });

  test("a settlement is made with a rate that is read from its source", async () => {
    const source = { source: "http_json", url: "https://rates.example.com", pointer: "/price" };
    expect(await settled({}, { ratePerNativeUnit: source })).toEqual([]);
  });
});
