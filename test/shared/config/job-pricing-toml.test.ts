import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readTables, writeConfig } from "../../../shared/config/config-tables.ts";
import { parseJobPricing } from "../../../shared/config/job-pricing-toml.ts";
import { readPricing } from "../../../shared/pricing/read-pricing.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { problemsOf } from "./files.ts";
import { load, problems, x402, x402Dir } from "./x402-files.ts";

const jobs = (text: string) => problems({ x402: x402(), jobs: text });

/** One job as a table, with these keys beside its price. */
const described = (keys: string) => `[1.7]\nprice_wei = "1000000000000000"\n${keys}\n`;

const SCHEMA = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

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
  ["a padded service id", '[01]\n7 = "1"', /01: must be a service id/],
  ["a service id beyond 2^53-1", '[9007199254740992]\n7 = "1"', /must be a service id/],
  ["a padded job index", '[1]\n007 = "1"', /1\.007: must be a job index/],
  ["a job index beyond 2^32-1", '[1]\n4294967296 = "1"', /must be a job index/],
  ["a job index in words", '[1]\nseven = "1"', /must be a job index/],
  ["a price as a TOML integer", "[1]\n7 = 1000", /1\.7: must be quoted/],
  ["a price beyond any TOML integer", "[1]\n7 = 1000000000000000000000", /1\.7: must be quoted/],
  ["a price as a TOML float", "[1]\n7 = 1e15", /1\.7: must be quoted/],
  ["a price of zero", '[1]\n7 = "0"', /must be above 0/],
  ["a fractional price", '[1]\n7 = "1.5"', /must be an integer in wei/],
  ["a price in hex", '[1]\n7 = "0x10"', /must be an integer in wei/],
  ["a price below zero", '[1]\n7 = "-1"', /must be an integer in wei/],
  ["a price above 2^256-1", `[1]\n7 = "${2n ** 256n}"`, /must be at most 2\^256-1/],
  ["a very long price", `[1]\n7 = "${"9".repeat(100_000)}"`, /must be at most 2\^256-1/],
  ["a price without a service", '7 = "1"', /7: must be a table/],
  ["a table without a price", "[1.7]", /1\.7\.price_wei: is missing/],
  ["a table whose price is a number", "[1.7]\nprice_wei = 1", /1\.7\.price_wei: must be quoted/],
  ["an unknown key of a job", '[1.7]\nprice_wei = "1"\nprise = 1', /1\.7\.prise: unknown key/],
  ["a name of two words", described('name = "two words"'), /1\.7\.name: must be 1 to 32 lower-case letters/],
  ["a name that reads as an option", described('name = "-h"'), /1\.7\.name: must be 1 to 32/],
  ["a name of 33 letters", described(`name = "${"a".repeat(33)}"`), /1\.7\.name: must be 1 to 32/],
  [
    "a description of 257 letters",
    described(`description = "${"a".repeat(257)}"`),
    /must have at most 256 characters/,
  ],
  ["a description of two lines", described('description = "a\\nb"'), /1\.7\.description: must be one line/],
  [
    "an example of nothing",
    described("input_example = 1"),
    /1\.7\.input_schema: is missing: input_example needs it/,
  ],
  [
    "a schema without an example",
    described('input_schema = { type = "string" }'),
    /1\.7\.input_example: is missing/,
  ],
  [
    "a schema that is not there",
    described('input_schema = "none.json"\ninput_example = 1'),
    /1\.7\.input_schema: names a file that cannot be read \(ENOENT/,
  ],
  [
    "a schema with a date in it",
    described("input_schema = { const = 2020-01-01 }\ninput_example = 1"),
    /1\.7\.input_schema: must not contain a date/,
  ],
  [
    "a schema that is none",
    described('input_schema = { type = "text" }\ninput_example = 1'),
    /1\.7\.input_schema: does not compile/,
  ],
  [
    "an example that does not fit",
    described('input_schema = { type = "object" }\ninput_example = 1'),
    /1\.7\.input_example: does not match the schema: # must be object/,
  ],
  [
    "an output example of nothing",
    described("output_example = 1"),
    /1\.7\.output_schema: is missing: output_example needs it/,
  ],
  [
    "an output example that does not fit",
    described('output_schema = { type = "object" }\noutput_example = 1'),
    /1\.7\.output_example: does not match the schema: # must be object/,
  ],
  [
    "an input and an output of 2561 bytes",
    described(
      `input_schema = {}\ninput_example = 1\noutput_schema = {}\noutput_example = ["${"a".repeat(2552)}"]`,
    ),
    /1\.7\.output_schema: is too long: .* have 2561 bytes together as JSON, and a 402 has room for 2560\. Shorten them/,
  ],
  ["text that is no TOML", "[1\n", /^job_pricing\.toml: Invalid TOML document: /],
])("a job_pricing.toml with %s is refused", (_what, text, problem) => {
  expect(jobs(text)).toEqual([expect.stringMatching(problem)]);
});

test("job_pricing.toml is checked without x402.toml too", () => {
  expect(problems({ jobs: '[1]\n7 = "x"' })).toEqual([expect.stringMatching(/^job_pricing\.toml: 1\.7: /)]);
});

test("a job may be a table with a name, a description, and a schema and an example from files or from the table itself", () => {
  const dir = x402Dir({
    x402: x402(),
    jobs: `
[1]
1 = "1000000000000000"
[1.7]
price_wei = "2000000000000000"
name = "keccak-256"
description = "Hashes a text"
input_schema = "schemas/text.json"
input_example = "schemas/text.example.json"
output_schema = "schemas/text.json"
output_example = "schemas/text.example.json"
[2.7]
price_wei = "3000000000000000"
input_schema = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
input_example = { text = "hello" }
`,
  });
  mkdirSync(join(dir, "schemas"));
  writeFileSync(join(dir, "schemas/text.json"), JSON.stringify(SCHEMA));
  writeFileSync(join(dir, "schemas/text.example.json"), '{"text":"hello"}');
  const { prices } = loadConfig(readX402, { dir, env: {} });
  expect(prices.get("1/1")).toEqual({ serviceId: 1, jobIndex: 1, priceWei: 10n ** 15n });
  const input = { schema: SCHEMA, example: { text: "hello" } };
  expect(prices.get("1/7")).toMatchObject({
    ...{ priceWei: 2n * 10n ** 15n, name: "keccak-256", description: "Hashes a text" },
    ...{ input, output: input },
  });
  expect(prices.get("2/7")).toMatchObject({ priceWei: 3n * 10n ** 15n, input });
  expect(loadConfig(readPricing, { dir, env: {} }).jobs.get("1/7")?.priceWei).toBe(2n * 10n ** 15n);

  const copy = tempDir();
  writeConfig(copy, readTables(dir));
  expect(loadConfig(readX402, { dir: copy, env: {} }).prices.get("1/7")).toMatchObject({
    ...{ input, output: input },
  });
});

test("every problem of the jobs' tables is reported at once, with file, key and what is wrong", () => {
  const dir = x402Dir({
    x402: x402(),
    jobs: `
[1.1]
price_wei = "1000000000000000"
name = "echo"
[1.2]
price_wei = "0"
name = "Echo"
input_schema = "long.json"
input_example = "broken.json"
[1.3]
price_wei = "1000000000000000"
name = "echo"
`,
  });
  writeFileSync(join(dir, "long.json"), JSON.stringify({ title: "x".repeat(64 * 1024) }));
  writeFileSync(join(dir, "broken.json"), "{");
  expect(problemsOf(() => loadConfig(readX402, { dir, env: {} }))).toEqual([
    expect.stringMatching(/^job_pricing\.toml: 1\.2\.price_wei: must be above 0$/),
    expect.stringMatching(/^job_pricing\.toml: 1\.2\.name: must be 1 to 32/),
    expect.stringMatching(
      /^job_pricing\.toml: 1\.2\.input_schema: names a file that is longer than 65536 bytes$/,
    ),
    expect.stringMatching(/^job_pricing\.toml: 1\.2\.input_example: must be JSON/),
    expect.stringMatching(/^job_pricing\.toml: 1\.3\.name: must be unique: job 1\/1 has this name$/),
  ]);
});

test("code gives a schema as an object, and no path", () => {
  const table = { price_wei: "1", input_schema: SCHEMA, input_example: { text: "a" } };
  expect(parseJobPricing({ "1": { "7": table } }).jobs.get("1/7")?.input?.schema).toEqual(SCHEMA);
  const { problems: found } = parseJobPricing({ "1": { "7": { ...table, input_schema: "a.json" } } });
  expect(found).toEqual([
    { path: ["1", "7", "input_schema"], message: expect.stringMatching(/the value itself/) },
  ]);
});

test.each([
  ["report", []],
  [
    "other",
    [
      'job_pricing.toml: 1.7.name: must be the name of [jobs] in postern.toml, which is "other"; or leave one of them out',
    ],
  ],
])("a job that job_pricing.toml names report may have only this name in postern.toml: %s", (name, found) => {
  const postern = `[jobs."1/7"]\nname = "${name}"\n[jobs."1/8"]\nname = "free"\n`;
  const jobs = described('name = "report"');
  expect(problems({ x402: x402(), postern, jobs })).toEqual(found);
  const dir = x402Dir({ x402: x402(), postern, jobs });
  expect(problemsOf(() => loadConfig(readPricing, { dir, env: {} }))).toEqual(found);
});
