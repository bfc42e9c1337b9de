import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../shared/config/config-tables.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { CONTRACT, PAY_TO, USDC } from "../shared/config/x402-files.ts";
import { newReceiptKey } from "../support/receipt-key.ts";
import { tempDir } from "../support/temp-dir.ts";
import { readDocument } from "./blocks.ts";
import { LOADS } from "./loads.ts";

const hex = randomBytes(32).toString("hex");
/** The variables of each row of the table, with a value that the key accepts. */
const VARIABLES: Record<string, Record<string, string>> = {
  "`[redis] url`, or its passwords and keys of certificates": { REDIS: "redis://:password@127.0.0.1" },
  "`[results] secret`": { RESULTS: hex },
  "`[callbacks] secret`": { CALLBACKS: `whsec_${randomBytes(32).toString("base64")}` },
  "`[runner] secret`": { RUNNER: hex },
  "`secret` of `[runners.<name>]`": { OTHER_RUNNER: hex },
  "`[runner.redis] url`": { RUNNER_REDIS: "redis://:password@127.0.0.1:6380" },
  "`secret` and `verify_token` of endpoints": { SENDER: hex, VERIFY: hex },
  "`quote_secret`, `receipt_keys`, credentials of facilitators, `rpc_url` of `[[job_policies]]`": {
    ...{
      QUOTE: hex,
      RECEIPT: newReceiptKey().pem,
      FACILITATOR: hex,
      POLICY_NODE: "https://node.example.com",
    },
  },
  "`rpc_url` of `[[accepted_tokens]]`; `rpc_url`, `url` and `headers` of rate sources": {
    ...{ NODE: "https://node.example.com", FEED_NODE: "https://node.example.com" },
    ...{ RATE_URL: "https://rates.example.com", RATE_HEADER: hex },
  },
  "`key` of the pricing engine": { PRICING: hex },
  "`token` of the console": { CONSOLE: hex },
};
const VALUES: Env = Object.assign({}, ...Object.values(VARIABLES));

const pointer = { pointer: "/price", url: "env:RATE_URL", headers: { Authorization: "env:RATE_HEADER" } };
const tables = (deliveries: boolean): ConfigTables => ({
  postern: {
    redis: { url: "env:REDIS" },
    results: { deliveries, secret: "env:RESULTS" },
    callbacks: { secret: "env:CALLBACKS" },
    runner: { secret: "env:RUNNER", redis: { url: "env:RUNNER_REDIS" } },
    runners: { other: { url: "http://127.0.0.1:8646", secret: "env:OTHER_RUNNER" } },
    jobs: { "1/7": { runner: "other" } },
  },
  webhooks: {
    endpoints: [{ path: "/a", job_id: 1, preset: "meta", secret: "env:SENDER", verify_token: "env:VERIFY" }],
  },
  x402: {
    public_url: "https://jobs.example.com",
    facilitator_url: "https://facilitator.example.com",
    facilitator_headers: { Authorization: "env:FACILITATOR" },
    quote_secret: "env:QUOTE",
    receipt_keys: "env:RECEIPT",
    job_policies: [
      {
        ...{ service_id: 1, job_index: 7, invocation_mode: "restricted_paid", auth_mode: "payer_is_caller" },
        ...{ rpc_url: "env:POLICY_NODE", contract: CONTRACT },
      },
    ],
    accepted_tokens: [
      {
        ...{ network: "eip155:84532", asset: USDC, symbol: "USDC", decimals: 6, pay_to: PAY_TO },
        ...{ eip3009_name: "USDC", eip3009_version: "2", rpc_url: "env:NODE" },
        ...{ min_rate: "1", max_rate: "9000" },
        rate_per_native_unit: {
          ...{ source: "median", max_deviation_bps: 100 },
          of: [
            { source: "http_json", ...pointer },
            { source: "chainlink", rpc_url: "env:FEED_NODE", feed: CONTRACT, max_age_secs: 3900 },
          ],
        },
      },
    ],
  },
  job_pricing: { "1": { "7": "1000000000000000" } },
  pricing: { key: "env:PRICING", domain: { chain_id: 8453, verifying_contract: CONTRACT } },
  operator: { tokens: [{ name: "alice", role: "operator", token: "env:CONSOLE" }] },
});

/** The names of the processes that read each variable. */
function readersOf(deliveries: boolean): Map<string, string[]> {
  const dir = tempDir();
  writeConfig(dir, tables(deliveries));
  const readers = new Map<string, string[]>();
  for (const [process, load] of Object.entries(LOADS)) {
    const read = new Set<string>();
    const env = new Proxy(VALUES, {
      get(values, name: string) {
        read.add(name);
        return values[name];
      },
    });
    load(dir, env);
    for (const name of read) readers.set(name, [...(readers.get(name) ?? []), process]);
  }
  return readers;
}

/** The processes of a row: those that always need its secret, and those that need it only with `results.deliveries`. */
function filesIn(cell: string): { always: string[]; withDeliveries: string[] } {
  const named = (text: string) => [...text.matchAll(/`(\w+)\.env`/g)].map(([, process = ""]) => process);
  const [always = ""] = cell.split("; with `results.deliveries` also ");
  const everyone = Object.keys(LOADS);
  return always === "each"
    ? { always: everyone, withDeliveries: everyone }
    : { always: named(always), withDeliveries: named(cell) };
}

test("each process reads the secrets that docs/operations/systemd/README.md gives it, and no others", () => {
  const [, table = ""] = readDocument("docs/operations/systemd/README.md").split("| Secret | File |\n");
  const [rows = ""] = table.split("\n\n");
  const cells = [...rows.matchAll(/^ *\| (.+) \| (.+) \|$/gm)].map(([, secret = "", files = ""]) => [
    secret,
    files,
  ]);
  expect(cells.map(([secret]) => secret)).toEqual(Object.keys(VARIABLES));

  const [plain, delivered] = [readersOf(false), readersOf(true)];
  for (const [secret = "", files = ""] of cells) {
    const { always, withDeliveries } = filesIn(files);
    for (const name of Object.keys(VARIABLES[secret] ?? {})) {
      expect(plain.get(name)?.toSorted(), name).toEqual(always.toSorted());
      expect(delivered.get(name)?.toSorted(), name).toEqual(withDeliveries.toSorted());
    }
  }
});
