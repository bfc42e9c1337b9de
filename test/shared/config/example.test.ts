import { expect, test } from "vitest";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { CallbacksToml } from "../../../shared/config/callbacks-toml.ts";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { everyEndpoint } from "../../../shared/config/endpoint-fields.ts";
import type { JobPrice } from "../../../shared/config/job-pricing-toml.ts";
import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { readOperator } from "../../../shared/config/read-operator.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { PLACEHOLDERS } from "../../../shared/config/secrets.ts";
import type { WebhooksToml } from "../../../shared/config/webhooks-toml.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { AUTH_KEYS } from "../../../shared/webhook-auth/auth-modes.ts";
import { dirWith, exampleFile, type Files, filledExample, problemsOf } from "./files.ts";

/** The compiler requires every key here. docs/senders.md describes the keys inside a description's tables. */
const WEBHOOKS_KEYS: Readonly<Record<keyof WebhooksToml, true>> = {
  bind_address: true,
  body_limit_bytes: true,
  request_timeout_secs: true,
  idempotency_window_secs: true,
  refusals_per_minute: true,
  endpoints: true,
};
const CALLBACKS_KEYS: Readonly<Record<keyof CallbacksToml, true>> = {
  ...{ secret: true, allow_cidrs: true, timeout_ms: true, concurrency: true, attempts: true },
  ...{ backoff: true, result_bytes_max: true },
};
const JOB_KEYS: Readonly<Record<keyof PosternToml["jobs"][string], true>> = {
  ...{
    name: true,
    concurrency: true,
    rate: true,
    attempts: true,
    backoff: true,
    timeout_ms: true,
    runner: true,
  },
};

/** Keys in the table of a job for sale. */
const PRICED_JOB_KEYS: Readonly<
  Record<"price_wei" | keyof Omit<JobPrice, keyof JobIds | "priceWei">, readonly string[]>
> = {
  ...{ price_wei: ["price_wei"], name: ["name"], description: ["description"] },
  input: ["input_schema", "input_example"],
  output: ["output_schema", "output_example"],
  keepsResult: ["keep_result"],
  callbackUrl: ["callback_url"],
};

const names = ["postern.toml", "webhooks.toml", "x402.toml", "job_pricing.toml", "operator.toml"];
const files = (read = exampleFile): Files => Object.fromEntries(names.map((name) => [name, read(name)]));
const loadAll = (all: Files) => loadConfig(readX402, { dir: dirWith(all), env: {} });
const filled = () => files(filledExample);

test("the example configuration is refused for every placeholder in it, and for nothing else", () => {
  const dir = dirWith(files());
  const ofOperator = problemsOf(() => loadConfig(readOperator, { dir, env: {}, reader: "operator" }));
  const found = [...problemsOf(() => loadAll(files())), ...ofOperator];
  const [recipients, secrets] = [
    /pay_to: must not be the zero address/,
    /: must not be the placeholder of the example file/,
  ];
  expect(found.filter((line) => recipients.test(line))).toHaveLength(2);
  expect(found.filter((line) => secrets.test(line))).toHaveLength(PLACEHOLDERS.length);
  expect(found).toHaveLength(PLACEHOLDERS.length + 2);
  for (const value of PLACEHOLDERS) expect(Object.values(files()).join("\n")).toContain(`"${value}"`);
});

test("the example configuration is valid once its secrets are replaced, and states the true defaults", () => {
  const found = loadAll(filled());
  expect(found.postern).toEqual(loadConfig(readWebhooks, { dir: dirWith({}), env: {} }).postern);
  expect(found.x402).toMatchObject(x402Defaults());
  expect(found.warnings).toEqual([]);
});

/** Returns the values of a file with only the required keys. */
function x402Defaults() {
  const token =
    'network = "eip155:1"\nasset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"\nsymbol = "A"\ndecimals = 6';
  const domain = 'eip3009_name = "A"\neip3009_version = "1"\nrate_per_native_unit = "1"';
  const payTo = 'pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"\nrpc_url = "https://a.example"';
  const top = 'public_url = "https://a.example"\nfacilitator_url = "https://a.example"\nquote_secret = "x"';
  const { x402 } = loadAll({ "x402.toml": `${top}\n[[accepted_tokens]]\n${token}\n${domain}\n${payTo}\n` });
  const { public_url, facilitators, quote_secret, shop, ...defaults } = x402!;
  const { accepted_tokens, job_policies, ...rest } = defaults;
  expect(job_policies).toEqual([]);
  expect(shop).toEqual({ name: "a.example", tags: [] });
  const { transfer_method, confirmations } = accepted_tokens[0]!;
  return { ...rest, accepted_tokens: [{ transfer_method, confirmations }, {}] };
}

test("the example of operator.toml is valid once its tokens are replaced, and states the true defaults and every key", () => {
  const { operator, warnings } = loadConfig(readOperator, { dir: dirWith(filled()), env: {} });
  const { tokens: none, ...defaults } = loadConfig(readOperator, { dir: dirWith({}), env: {} }).operator;
  expect([operator, warnings, none]).toMatchObject([defaults, [], []]);
  for (const key of [...Object.keys(operator), "public_url", ...operator.tokens.flatMap(Object.keys)])
    expect(exampleFile("operator.toml")).toMatch(new RegExp(`\\b${key}\\b`));
});

test("the example configuration names every existing key", () => {
  const text = Object.values(files()).join("\n");
  const keys = (value: object): string[] =>
    Object.entries(value).flatMap(([key, inner]) => [
      key,
      ...(inner?.constructor === Object ? keys(inner) : []),
    ]);
  const { x402 } = loadAll(filled());
  for (const key of [
    ...keys(loadConfig(readWebhooks, { dir: dirWith({}), env: {} }).postern),
    ...Object.keys(WEBHOOKS_KEYS),
    ...["auth", "secret", ...Object.keys(everyEndpoint({ env: {} })), ...AUTH_KEYS],
    ...Object.keys(CALLBACKS_KEYS),
    ...Object.keys(JOB_KEYS),
    ...Object.values(PRICED_JOB_KEYS).flat(),
    "ops_address",
    "oldest_age_secs_max",
    "callback_hosts",
    ...Object.keys(x402!),
    ...["icon_url", "facilitator_url", "facilitator_headers", "cdp", "key_id", "key_secret"],
    ...x402!.facilitators.flatMap(Object.keys),
    ...x402!.accepted_tokens.flatMap(Object.keys),
    ...x402!.job_policies.flatMap(Object.keys),
  ]) {
    expect(text).toMatch(new RegExp(`\\b${key}\\b`));
  }
  expect(new Set(x402!.job_policies.map(policyKind)).size).toBe(3);
});

const policyKind = (policy: { invocation_mode: string; auth_mode?: string }) =>
  `${policy.invocation_mode} ${policy.auth_mode}`;

const CALLBACKS_TABLE = /^# (\[callbacks\][\s\S]*?)^$/m;

test("the commented table of callbacks in the example is valid, and states the true defaults", () => {
  const [, shown = ""] = CALLBACKS_TABLE.exec(exampleFile("postern.toml")) ?? [];
  const text = shown.replaceAll(/^# /gm, "");
  const secret = 'secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="';
  const load = (table: string) =>
    loadConfig(readWebhooks, { dir: dirWith({ "postern.toml": table }), env: {} });
  const { callbacks } = load(text.replace(/^secret = .*$/m, secret)).postern;
  expect(callbacks).toEqual(load(`[callbacks]\n${secret}`).postern.callbacks);
  expect(Object.keys(callbacks ?? {}).sort()).toEqual(Object.keys(CALLBACKS_KEYS).sort());
});

test("the commented tables of jobs and runners in the example are valid", () => {
  const shown = exampleFile("postern.toml")
    .replace(CALLBACKS_TABLE, "")
    .replaceAll(
      /^# (?=\[(?:runners|jobs)\.|(?:url|secret|timeout_ms|name|concurrency|rate|attempts|backoff|runner) =)/gm,
      "",
    )
    .replaceAll(/"env:\w+"/g, '"a secret of the test"');
  const { postern } = loadConfig(readWebhooks, { dir: dirWith({ "postern.toml": shown }), env: {} });
  expect(Object.keys(postern.runners)).toEqual(["reports"]);
  expect(Object.keys(postern.jobs["7/1"] ?? {})).toEqual(Object.keys(JOB_KEYS));
});
