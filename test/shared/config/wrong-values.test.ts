import { parse, stringify } from "smol-toml";
import { expect, test } from "vitest";
import { AppError } from "../../../shared/errors/app-error.ts";
import { loadPricingConfig } from "../../../shared/pricing/load-pricing-config.ts";
import { loadX402Config } from "../../../shared/pricing/load-x402-config.ts";
import { PRESETS } from "../../../shared/senders/presets.ts";
import { dirWith, filledExample } from "./files.ts";

type Table = { [key: string]: unknown };
type Path = readonly (string | number)[];

/** What an operator may write by mistake, of each type of TOML. */
const WRONG: readonly unknown[] = [
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

/** Endpoints that between them have every table of a sender's description. */
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
].map((endpoint, index) => ({ path: `/described/${index}`, job_id: 1, ...endpoint }));

const PRICING_KEY = { POSTERN_TEST_KEY: `0x${"1".repeat(64)}` };

const bases: readonly { name: string; table: Table }[] = [
  ...["postern.toml", "webhooks.toml", "x402.toml", "job_pricing.toml", "pricing.toml"].map((name) => ({
    name,
    table: parse(filledExample(name)),
  })),
  { name: "webhooks.toml", table: { endpoints: DESCRIBED } },
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
  return copy;
}

function problemsWith(name: string, table: unknown): string[] {
  const dir = dirWith({ [name]: stringify(table) });
  const load = name === "pricing.toml" ? loadPricingConfig : loadX402Config;
  try {
    load({ dir, env: PRICING_KEY });
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    expect(error.code).toBe("start.config_invalid");
    return error.message.split("\n");
  }
}

test.each(bases)(
  "a wrong value of any key of $name is named with its key and in words, or is allowed",
  ({ name, table }) => {
    for (const path of pathsOf(table)) {
      for (const wrong of WRONG) {
        const said = problemsWith(name, withValue(table, path, wrong));
        for (const line of said) {
          const what = `${path.join(".")} = ${JSON.stringify(wrong)} is answered "${line}"`;
          expect(line, what).toMatch(/\.toml: [^:]+(?::[^: ][^:]*)*: [a-z"]/);
          expect(line, what).not.toMatch(/undefined|\[object|NaN|: (?:Invalid|Too) |expected .* received/);
        }
      }
    }
  },
);
