import { readdirSync, readFileSync } from "node:fs";
import { Ajv, type ValidateFunction } from "ajv";
import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { SCHEMA_NAMES, type Schema, schemaOf } from "./config-schemas.ts";
import { configTypes } from "./config-types.ts";

const config = new URL("../../config/", import.meta.url);
const text = (path: string) => readFileSync(new URL(path, config), "utf8");
const committed = (name: string) => JSON.parse(text(`schema/${name}.json`)) as Schema;

const ajv = new Ajv({
  allErrors: true,
  strict: true,
  strictRequired: false,
  strictTypes: false,
  validateFormats: false,
});
const validators = new Map<string, ValidateFunction>();

/** The errors of a table, by the committed schema. */
function problemsOf(name: string, table: unknown): string[] {
  const validate = validators.get(name) ?? ajv.compile(committed(name));
  validators.set(name, validate);
  validate(table);
  return (validate.errors ?? []).map(({ instancePath, keyword, params }) => {
    const key = params["additionalProperty"] ?? params["missingProperty"] ?? "";
    return `${instancePath}/${key} ${keyword}`.replace(/^\/ /, "");
  });
}

test.each(SCHEMA_NAMES)(
  "config/schema/%s.json equals the schema of the program's check; -u writes it again",
  async (name) => {
    const path = `../../config/schema/${name}.json`;
    await expect(`${JSON.stringify(schemaOf(name), null, 1)}\n`).toMatchFileSnapshot(path);
  },
);

test("config/schema/files.ts has the types of these schemas; -u writes it again", async () => {
  await expect(configTypes()).toMatchFileSnapshot("../../config/schema/files.ts");
});

const files = ["example", "devnet"].flatMap((dir) =>
  readdirSync(new URL(dir, config))
    .filter((name) => name.endsWith(".toml"))
    .map((name) => `${dir}/${name}`),
);

test.each(files)("config/%s fits its schema, which its first line names for an editor", (path) => {
  const name = path.replace(/^.*\/|\.toml$/g, "");
  const [first] = text(path).split("\n");
  expect(first).toBe(`#:schema ../schema/${name}.json`);
  expect(problemsOf(name, parse(text(path)))).toEqual([]);
});

const endpoint = { path: "/a", job_id: 1, auth: "none" };

test.each([
  ["postern", { drain_sec: 5 }, ["/drain_sec additionalProperties"]],
  ["postern", { redis: { durability: "maybe" } }, ["/redis/durability/ enum"]],
  ["postern", { jobs: { "7/1": { attempts: 0 } } }, ["/jobs/7~11/attempts/ minimum"]],
  ["webhooks", {}, ["/endpoints required"]],
  ["webhooks", { endpoints: [{ ...endpoint, auth: "apikey" }] }, ["/endpoints/0/auth/ enum"]],
  [
    "webhooks",
    { endpoints: [{ path: "/a", job_id: 1 }] },
    expect.arrayContaining(["/endpoints/0/auth required"]),
  ],
  ["webhooks", { endpoints: [{ path: "/a", job_id: 1, preset: "gihtub" }] }, ["/endpoints/0/preset/ enum"]],
  ["webhooks", { endpoints: [{ ...endpoint, secert: "x" }] }, ["/endpoints/0/secert additionalProperties"]],
  [
    "webhooks",
    { endpoints: [{ ...endpoint, auth: "bearer" }] },
    expect.arrayContaining(["/endpoints/0/secret required"]),
  ],
  [
    "webhooks",
    { endpoints: [{ ...endpoint, secret: "x" }] },
    expect.arrayContaining(["/endpoints/0/secret/ false schema"]),
  ],
  ["pricing", { key: "0x1", domain: { chain_id: 1, verifying_contract: "0x1" } }, ["/key/ pattern"]],
  ["operator", { tokens: [{ name: "a", role: "admin", token: "env:A" }] }, ["/tokens/0/role/ enum"]],
  ["job_pricing", { "1": { "2": 5 } }, expect.arrayContaining(["/1/2/ type"])],
  [
    "job_pricing",
    { "1": { "2": { price: "5" } } },
    expect.arrayContaining(["/1/2/price additionalProperties"]),
  ],
] as [string, object, string[]][])("the schema of %s.toml refuses %j", (name, table, problems) => {
  expect(problemsOf(name, table)).toEqual(problems);
});

test("the schema of x402.toml refuses an EIP-3009 domain for a Permit2 token, and requires one for other tokens", () => {
  const example = parse(text("example/x402.toml")) as { accepted_tokens: object[] };
  const [token] = example.accepted_tokens;
  const withToken = (changes: object) =>
    problemsOf("x402", { ...example, accepted_tokens: [{ ...token, ...changes }] });
  expect(withToken({ transfer_method: "permit2" })).toContain(
    "/accepted_tokens/0/eip3009_name/ false schema",
  );
  expect(withToken({ transfer_method: undefined, eip3009_name: undefined })).toContain(
    "/accepted_tokens/0/eip3009_name required",
  );
});

test("the schema of webhooks.toml offers every preset, and accepts each", () => {
  for (const preset of Object.keys(PRESETS))
    expect(
      problemsOf("webhooks", { endpoints: [{ path: "/a", job_id: 1, preset, secret: "env:A" }] }),
    ).toEqual([]);
});

/** Keys without a description. They are parts of a value that has a description, or their name is clear. */
const withoutWords = (schema: Schema): string[] =>
  Object.entries((schema["properties"] ?? {}) as Record<string, Schema>)
    .filter(([, property]) => property["description"] === undefined)
    .map(([key]) => key);

test("an editor shows a description of each key at the top of a file, except of keys with a clear name", () => {
  const described = Object.fromEntries(SCHEMA_NAMES.map((name) => [name, withoutWords(committed(name))]));
  expect(described).toMatchInlineSnapshot(`
    {
      "job_pricing": [],
      "operator": [
        "bind_address",
        "tokens",
      ],
      "postern": [
        "redis",
        "runner",
        "runners",
        "jobs",
        "producer",
        "callbacks",
      ],
      "pricing": [
        "domain",
      ],
      "webhooks": [
        "bind_address",
        "body_limit_bytes",
        "endpoints",
      ],
      "x402": [
        "bind_address",
        "facilitator_headers",
        "facilitators",
        "quote_domain",
        "body_limit_bytes",
        "shop",
        "job_policies",
        "accepted_tokens",
      ],
    }
  `);
});
