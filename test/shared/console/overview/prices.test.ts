import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { createPricesApi, PricesView } from "../../../../shared/console/overview/prices.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { tokenTable } from "../../../support/rate-tokens.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const redis = useRedis();

type Tables = Parameters<typeof writeConfig>[1];

function pricesOf(tables: Tables, spoil: (pricingFile: string) => void = () => {}) {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, { postern: {}, ...tables });
  spoil(join(configDir, "job_pricing.toml"));
  return createPricesApi({ partition: redis.partition, configDir, env: {} }).read("1h");
}

const SOLD = {
  "1": {
    "1": "1000000000000000",
    "2": { price_wei: "2000000000000000", name: "report", description: "Writes one" },
  },
};

test("each job is shown with its price in wei and in each token with a known rate, and with its permitted buyers", async () => {
  const read = await pricesOf({
    job_pricing: SOLD,
    x402: {
      accepted_tokens: [tokenTable("3200")],
      job_policies: [{ service_id: 1, job_index: 2, invocation_mode: "disabled" }],
    },
  });
  expect(PricesView.parse(read).jobs).toEqual([
    {
      ...{ job: "1/1", name: null, description: null, invocation_mode: "public_paid" },
      price_wei: "1000000000000000",
      offers: [expect.objectContaining({ symbol: "USDC", decimals: 6, amount: "3200000" })],
    },
    expect.objectContaining({
      ...{ job: "1/2", name: "report", description: "Writes one", invocation_mode: "disabled" },
      offers: [expect.objectContaining({ amount: "6400000" })],
    }),
  ]);
  expect(read.rates).toEqual([
    expect.objectContaining({ symbol: "USDC", source: "fixed", value: "3200", offered: true, history: null }),
  ]);
});

test("a token whose rate was never read has no offers, and says why", async () => {
  const feed = { source: "http_json", url: "https://rates.example/usdc", pointer: "/rate" };
  const read = await pricesOf({
    job_pricing: SOLD,
    x402: { accepted_tokens: [{ ...tokenTable(feed), min_rate: "2000", max_rate: "4000" }] },
  });
  expect(read.jobs[0]?.offers).toEqual([]);
  expect(read.rates).toEqual([
    expect.objectContaining({
      ...{ offered: false, value: null, min_rate: "2000", max_rate: "4000" },
      source: "http_json rates.example",
      reason: expect.stringContaining("no gateway has read it"),
      history: expect.objectContaining({ step_ms: 60_000, values: Array.from({ length: 60 }, () => null) }),
    }),
  ]);
});

test("both lists are empty if no job is sold", async () => {
  expect(await pricesOf({})).toEqual({ rates: [], jobs: [], gateway_url: null });
});

test("unreadable files are refused with the reason, without any secret", async () => {
  const feed = { source: "http_json", url: "env:RATES_URL", pointer: "/rate" };
  const x402 = { accepted_tokens: [{ ...tokenTable(feed), min_rate: "2000", max_rate: "4000" }] };
  await expect(pricesOf({ job_pricing: SOLD, x402 })).rejects.toMatchObject({
    code: "start.config_invalid",
    message: expect.stringContaining("RATES_URL"),
  });
});

test.each<[string, string, (file: string) => void]>([
  ["is a link that leads nowhere", "file that does not exist", (file) => replaceByLink(file)],
  ["is not UTF-8", "is not UTF-8", (file) => writeFileSync(file, Buffer.from("# \xe9", "latin1"))],
  ["is no TOML", "job_pricing.toml:1: ", (file) => writeFileSync(file, "[")],
  ["has a job without a price", "price_wei", (file) => writeFileSync(file, '["1"]\n1 = { name = "a" }')],
])("a job_pricing.toml that %s is refused, and not read as one without jobs", async (_, message, spoil) => {
  const x402 = { accepted_tokens: [tokenTable("3200")] };
  await expect(pricesOf({ job_pricing: SOLD, x402 }, spoil)).rejects.toMatchObject({
    code: "start.config_invalid",
    message: expect.stringContaining(message),
  });
});

function replaceByLink(file: string): void {
  rmSync(file);
  symlinkSync("nowhere", file);
}
