import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "smol-toml";
import { expect, test } from "vitest";
import { z } from "zod";
import type { CheckedTables } from "../../../shared/config/checked-tables.ts";
import { openConfigDir } from "../../../shared/config/config-dir.ts";
import { posternToml } from "../../../shared/config/postern-toml.ts";
import { pricingToml } from "../../../shared/config/pricing-toml.ts";
import { repeatedPaths, webhooksToml } from "../../../shared/config/webhooks-toml.ts";
import { x402Problems, x402Toml } from "../../../shared/config/x402-toml.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { PRESETS } from "../../../shared/webhook-auth/presets/presets.ts";
import { LONG_RUN } from "../../support/long-run.ts";
import { dirWith, filledExample } from "./files.ts";

type Table = { [key: string]: unknown };
type Path = readonly (string | number)[];

/** Values that an operator may write by mistake, of each type of TOML, and a missing key. */
const WRONG: readonly unknown[] = [
  undefined,
  "",
  "a b\r\n",
  "{body:",
  "é",
  -1,
  1.5,
  2 ** 60,
  true,
  [],
  ["x", 1],
  {},
  { nope: 1 },
  [{ nope: 1 }],
  new Date(0),
];

/** Endpoints that together have every table of a sender's description. */
const DESCRIBED = [
  {
    preset: "stripe",
    signature: PRESETS["stripe"]?.endpoint.signature,
    secret: "whsec_a secret of one's own",
  },
  { preset: "meta", verify_token: "a token of one's own", secret: "a secret of one's own" },
  { preset: "slack", handshakes: PRESETS["slack"]?.endpoint.handshakes, secret: "a secret of one's own" },
  { preset: "zoom", handshakes: PRESETS["zoom"]?.endpoint.handshakes, secret: "a secret of one's own" },
  { preset: "twilio", public_url: "https://a.example/x", secret: "a secret of one's own" },
  { preset: "google-pubsub", audience: "a", claims: { email: "b" }, jwks: "https://a.example" },
].map((endpoint, index) => ({ path: `/described/${index}`, job_id: 1, ...endpoint }));

const SOMEWHERE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const NODE = "https://node.example.com";

/** A rate source of each kind. */
const SOURCES = [
  { source: "fixed", rate: "3200" },
  { source: "chainlink", rpc_url: NODE, feed: SOMEWHERE, max_age_secs: 3600, sequencer_feed: SOMEWHERE },
  { source: "uniswap_v3_twap", rpc_url: NODE, pool: SOMEWHERE, native_token: SOMEWHERE },
  { source: "http_json", url: "https://rates.example.com/eth", pointer: "/price", headers: { "X-Key": "k" } },
];
const MEDIAN = { source: "median", of: SOURCES, max_deviation_bps: 50, min_sources: 2 };

/** Tables that no example file has. */
const RARE: readonly Base[] = [
  {
    name: "postern.toml",
    table: {
      runner: { redis: { url: "redis://127.0.0.1:6379" } },
      runners: { big: { url: "http://127.0.0.1:1", secret: "a secret of one's own", timeout_ms: 1 } },
      jobs: {
        "1/2": {
          runner: "big",
          concurrency: 1,
          rate: { per_second: 1, burst: 1 },
          attempts: 1,
          backoff: { base_ms: 1, cap_ms: 1 },
          timeout_ms: 1,
        },
      },
    },
  },
  {
    name: "x402.toml",
    table: {
      public_url: "https://jobs.example.com",
      facilitator_url: "https://facilitator.example.com",
      quote_secret: ["a quote secret of one's own"],
      quote_operators: [SOMEWHERE],
      quote_domain: { name: "TangleQuote", version: "1", chain_id: 1, verifying_contract: SOMEWHERE },
      accepted_tokens: [...SOURCES, MEDIAN].map((rate_per_native_unit, index) => ({
        network: `eip155:${index + 1}`,
        asset: SOMEWHERE,
        symbol: "USDC",
        decimals: 6,
        pay_to: SOMEWHERE,
        rpc_url: NODE,
        eip3009_name: "USD Coin",
        eip3009_version: "2",
        rate_per_native_unit,
        min_rate: "1000",
        max_rate: "10000",
      })),
    },
  },
];

const env = { POSTERN_TEST_KEY: `0x${"1".repeat(64)}` };

/** The check of each file. The schemas are made once, because that takes longer than a check. */
const CHECKS: Readonly<Record<string, Omit<Parameters<CheckedTables["read"]>[0], "name">>> = {
  "postern.toml": { schema: posternToml({ env }) },
  "webhooks.toml": { schema: webhooksToml({ env }), problemsIn: repeatedPaths },
  "x402.toml": { schema: x402Toml({ env }), problemsIn: x402Problems },
  "pricing.toml": { schema: pricingToml({ env }) },
};

/** A minimal valid file around the wrong key. */
type Base = { name: string; table: Table };

/** Returns a file for each of its tables of this name, and one without them. */
function apart(name: string, key: string): Base[] {
  const { [key]: tables, ...rest } = parse(filledExample(name)) as Record<string, Table[]>;
  return (tables ?? []).map((table, at) => ({ name, table: { ...(at === 0 && rest), [key]: [table] } }));
}

const bases: readonly Base[] = [
  ...["postern.toml", "x402.toml", "pricing.toml"].map((name) => ({
    name,
    table: parse(filledExample(name)),
  })),
  ...apart("webhooks.toml", "endpoints"),
  ...DESCRIBED.map((endpoint) => ({ name: "webhooks.toml", table: { endpoints: [endpoint] } })),
  ...RARE,
];

function pathsOf(value: unknown, path: Path = []): Path[] {
  const below =
    typeof value === "object" && value !== null && !(value instanceof Date)
      ? Object.entries(value).flatMap(([key, inner]) =>
          pathsOf(inner, [...path, Array.isArray(value) ? Number(key) : key]),
        )
      : [];
  return path.length === 0 ? below : [path, ...below];
}

function withValue(table: unknown, [key, ...rest]: Path, value: unknown): unknown {
  if (key === undefined) return value;
  const copy = Array.isArray(table) ? [...table] : { ...(table as Table) };
  (copy as Table)[key] = withValue((table as Table)[key], rest, value);
  return Array.isArray(copy) ? copy.filter((each) => each !== undefined) : copy;
}

function problemsWith(dir: string, name: string, table: unknown): string[] {
  writeFileSync(join(dir, name), stringify(table));
  const files = openConfigDir(dir);
  try {
    files.checked(files.read({ name, ...CHECKS[name], schema: CHECKS[name]?.schema ?? z.never() }));
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    expect(error.code).toBe("start.config_invalid");
    return error.message.split("\n");
  }
}

const names = [...new Set(bases.map(({ name }) => name))];

test.each(names)(
  "a wrong value of any key of %s is reported with its key and an explanation, or is permitted",
  (name) => {
    const dir = dirWith({});
    for (const { table } of bases.filter((base) => base.name === name)) {
      for (const [at, path] of pathsOf(table).entries()) {
        for (const wrong of LONG_RUN ? WRONG : [WRONG[at % WRONG.length]]) {
          const lines = problemsWith(dir, name, withValue(table, path, wrong));
          for (const line of lines) {
            const what = `${path.join(".")} = ${JSON.stringify(wrong)} is answered "${line}"`;
            expect(line, what).toMatch(
              /\.toml(?::\d+)?: (?:endpoint (?:\/\S+|".+"): )?[^:]+(?::[^: ][^:]*)*: [a-z"]/,
            );
            expect(line, what).not.toMatch(
              /undefined|\[object|NaN|\bexpected\b|, received|Invalid|Too (?:small|big)/,
            );
          }
        }
      }
    }
  },
);
