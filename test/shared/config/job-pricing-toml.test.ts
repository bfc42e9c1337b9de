import { expect, test } from "vitest";
import { load, problems, x402 } from "./x402-files.ts";

const jobs = (text: string) => problems({ x402: x402(), jobs: text });

test("job_pricing.toml takes ids and prices up to their bounds", () => {
  const token = { decimals: "0", rate_per_native_unit: '"1"' };
  const most = String(2n ** 256n - 1n);
  const { prices } = load({
    x402: x402({}, { token }),
    jobs: `[9007199254740991]\n4294967295 = "${most}"\n[0]\n0 = "1"\n`,
  });
  expect([...prices.keys()].sort()).toEqual(["0/0", "9007199254740991/4294967295"]);
  expect(prices.get("9007199254740991/4294967295")).toMatchObject({
    serviceId: Number.MAX_SAFE_INTEGER,
    jobIndex: 4_294_967_295,
    priceWei: 2n ** 256n - 1n,
  });
});

test.each([
  ["a padded service id", '[01]\n7 = "1"', /01: is not a service id/],
  ["a service id beyond 2^53-1", '[9007199254740992]\n7 = "1"', /is not a service id/],
  ["a padded job index", '[1]\n007 = "1"', /1\.007: is not a job index/],
  ["a job index beyond 2^32-1", '[1]\n4294967296 = "1"', /is not a job index/],
  ["a job index in words", '[1]\nseven = "1"', /is not a job index/],
  ["a price as a TOML integer", "[1]\n7 = 1000", /1\.7: must be quoted/],
  ["a price beyond any TOML integer", "[1]\n7 = 1000000000000000000000", /1\.7: must be quoted/],
  ["a price as a TOML float", "[1]\n7 = 1e15", /1\.7: must be quoted/],
  ["a price of zero", '[1]\n7 = "0"', /must be above 0/],
  ["a fractional price", '[1]\n7 = "1.5"', /must be whole wei/],
  ["a price in hex", '[1]\n7 = "0x10"', /must be whole wei/],
  ["a price below zero", '[1]\n7 = "-1"', /must be whole wei/],
  ["a price above 2^256-1", `[1]\n7 = "${2n ** 256n}"`, /is above 2\^256-1/],
  ["a very long price", `[1]\n7 = "${"9".repeat(100_000)}"`, /is above 2\^256-1/],
  ["a price without a service", '7 = "1"', /7: must be a table/],
  ["a table for a price", "[1.7]\na = 1", /must be whole wei/],
  ["text that is no TOML", "[1\n", /line \d/],
])("a job_pricing.toml with %s is refused", (_what, text, problem) => {
  expect(jobs(text)).toEqual([expect.stringMatching(problem)]);
});

test("job_pricing.toml is checked without x402.toml too", () => {
  expect(problems({ jobs: '[1]\n7 = "x"' })).toEqual([expect.stringMatching(/^job_pricing\.toml: 1\.7: /)]);
});
