import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../shared/config/load-config.ts";
import { PLACEHOLDERS } from "../../shared/config/secrets.ts";
import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { tempDir } from "../support/temp-dir.ts";

type Files = Record<string, string>;

function dirWith(files: Files): string {
  const dir = tempDir();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}
const load = (files: Files, env = {}) => loadConfig({ dir: dirWith(files), env });

/** The problems, without the directory before them. */
function problems(files: Files, env = {}): string[] {
  const message = messageOf(() => load(files, env));
  return message === "" ? [] : message.split("\n").map((line) => line.replace(/^.*\/(?=[^/]*\.toml: )/, ""));
}

/** What it throws says; nothing where it does not throw. */
function messageOf(run: () => unknown): string {
  try {
    run();
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

const endpoint = (lines: string) => `[[endpoints]]\npath = "/a"\njob_id = 1\n${lines}\n`;

test("every problem of every file is reported at once, with file and key", () => {
  const found = problems({
    "postern.toml":
      'nope = 1\n[redis]\nurl = "http://x"\ndurability = "maybe"\n[runner]\ntimeout_ms = 30000\nsecret = ["fine", ""]\n[producer]\nattempts = 0\n',
    "webhooks.toml": `bind_address = "nowhere"\n${[
      'path = "a"\njob_id = -1\nauth = "bearer"',
      'path = "/b"\njob_id = 9007199254740991\nauth = "bearer"\nsecret = "env:NOT_SET"\nextra = 1',
      'path = "/b"\njob_id = 1\nauth = "none"\nsecret = "x"',
      'path = "/livez"\njob_id = 1\nauth = "secret-handshake"',
      'path = "/c"\njob_id = 1\nauth = "api-key"\nsecret = "file:/does/not/exist"\napi_key_header = "a b"',
      'path = "/d e"\njob_id = 1.5\nauth = "none"\nname = "nämé"',
      'path = "/f"\njob_id = 1\nauth = "api-key"\nsecret = []\nidempotency_header = "x-api-key"',
    ]
      .map((lines) => `[[endpoints]]\n${lines}\n`)
      .join("")}`,
    "webhook.toml": "",
  });
  const keys = found.map((line) => line.split(": ").slice(0, 2).join(" ")).sort();
  expect(keys).toEqual([
    "postern.toml nope",
    "postern.toml producer.attempts",
    "postern.toml redis.durability",
    "postern.toml redis.url",
    "postern.toml runner.secret[1]",
    "postern.toml runner.timeout_ms",
    "webhook.toml is not a file of Postern (known",
    "webhooks.toml bind_address",
    "webhooks.toml endpoints[0].job_id",
    "webhooks.toml endpoints[0].path",
    "webhooks.toml endpoints[0].secret",
    "webhooks.toml endpoints[1].extra",
    "webhooks.toml endpoints[1].secret",
    "webhooks.toml endpoints[2].path",
    "webhooks.toml endpoints[2].secret",
    "webhooks.toml endpoints[3].auth",
    "webhooks.toml endpoints[4].api_key_header",
    "webhooks.toml endpoints[4].secret",
    "webhooks.toml endpoints[5].job_id",
    "webhooks.toml endpoints[5].name",
    "webhooks.toml endpoints[5].path",
    "webhooks.toml endpoints[6].secret",
  ]);
});

describe("refused", () => {
  test.each([
    [
      "TOML that does not parse, with its line",
      { "postern.toml": "a = 1\nb = = 2" },
      /postern\.toml: line 2/,
    ],
    [
      "a delivery id in the header of the credential",
      {
        "webhooks.toml": endpoint(
          'auth = "api-key"\nsecret = "0123456789abcdef"\nidempotency_header = "X-API-KEY"',
        ),
      },
      /idempotency_header: is the header of the credential/,
    ],
    [
      "a path with a query",
      { "webhooks.toml": endpoint('auth = "none"').replace("/a", "/a?b") },
      /endpoints\[0\]\.path/,
    ],
    ["no endpoint", { "webhooks.toml": "endpoints = []" }, /needs at least one endpoint/],
    [
      "an unset variable",
      { "webhooks.toml": endpoint('auth = "bearer"\nsecret = "env:MISSING"') },
      /MISSING, which is not set/,
    ],
    [
      "a job id beyond 2^53-1",
      { "webhooks.toml": endpoint('auth = "none"').replace("= 1", "= 9007199254740992") },
      /webhooks\.toml/,
    ],
  ] as [string, Files, RegExp][])("%s", (_what, files, problem) => {
    expect(problems(files).join("\n")).toMatch(problem);
  });

  test("a directory that is not there", () => {
    expect(() => loadConfig({ dir: "/does/not/exist", env: {} })).toThrow(/no such directory/);
  });
});

describe("secrets", () => {
  const CANARY = "canary-canary-canary";

  test("are literal, from the environment, or from a file without its last newline", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "secret"), `from a file ${CANARY}\n`);
    const secrets = ['"literal 0123456789"', '"env:HOOK"', `"file:${join(dir, "secret")}"`];
    const config = load(
      { "webhooks.toml": endpoint(`auth = "bearer"\nsecret = [${secrets.join(", ")}]`) },
      { HOOK: "from the environment" },
    );
    const [first] = config.webhooks?.endpoints ?? [];
    const values = first?.auth === "bearer" ? first.secret.map((secret) => secret.reveal()) : [];
    expect(values).toEqual(["literal 0123456789", "from the environment", `from a file ${CANARY}`]);
  });

  test("cannot be printed", () => {
    const config = load({
      "postern.toml": `[redis]\nurl = "redis://:${CANARY}@127.0.0.1"\n[runner]\nsecret = "${CANARY}"`,
      "webhooks.toml": endpoint(`auth = "bearer"\nsecret = "${CANARY}"`),
    });
    for (const text of [
      inspect(config, { depth: 20 }),
      JSON.stringify(config),
      String(config.postern.redis.url),
    ]) {
      expect(text).not.toContain(CANARY);
    }
  });

  test("are not part of any problem's text", () => {
    const found = problems({
      "webhooks.toml": endpoint(`auth = "none"\nsecret = "${CANARY}"`),
      "postern.toml": `[redis]\nurl = "http://${CANARY}"`,
    });
    expect(found).not.toHaveLength(0);
    expect(found.join("\n")).not.toContain(CANARY);
  });

  test("under 16 bytes are allowed, with a warning", () => {
    const { warnings } = load({
      "webhooks.toml": endpoint('auth = "bearer"\nsecret = ["short", "long enough to be one"]'),
    });
    expect(warnings).toEqual([
      expect.stringMatching(/^webhooks\.toml: endpoints\[0\]\.secret\[0\]: .*5 bytes/),
    ]);
  });

  test("are refused where they are empty, in the file, the environment or a file", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "empty"), "\n");
    for (const value of ["", "env:EMPTY", `file:${join(dir, "empty")}`]) {
      const files = { "webhooks.toml": endpoint(`auth = "bearer"\nsecret = "${value}"`) };
      expect(problems(files, { EMPTY: "" })).toEqual([expect.stringMatching(/secret: is empty/)]);
    }
  });
});

describe("the example configuration", () => {
  const names = ["postern.toml", "webhooks.toml", "x402.toml", "job_pricing.toml"];
  const example = (name: string) =>
    readFileSync(new URL(`../../config/example/${name}`, import.meta.url), "utf8");
  const files = (edit = (text: string) => text): Files =>
    Object.fromEntries(names.map((name) => [name, edit(example(name))]));
  const loadAll = (all: Files) => loadX402Config({ dir: dirWith(all), env: {} });
  const ZERO = `0x${"0".repeat(40)}`;
  /** Each secret, and where the money goes, replaced by one of the kind its key wants. */
  const filled = () =>
    files((text) =>
      text
        .replaceAll("replace-this-rpc-url", "https://node.example.com")
        .replaceAll(ZERO, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
        .replaceAll(/replace-this-[a-z-]+/g, "a secret of one's own"),
    );

  test("is refused as it stands: every placeholder, and nothing but placeholders", () => {
    const found = messageOf(() => loadAll(files())).split("\n");
    const [recipients, secrets] = [/pay_to: is the zero address/, /: is the placeholder of the example file/];
    expect(found.filter((line) => recipients.test(line))).toHaveLength(2);
    expect(found.filter((line) => secrets.test(line))).toHaveLength(PLACEHOLDERS.length);
    expect(found).toHaveLength(PLACEHOLDERS.length + 2);
    for (const value of PLACEHOLDERS) expect(Object.values(files()).join("\n")).toContain(`"${value}"`);
  });

  test("is valid once its secrets are replaced, and states the true defaults", () => {
    const found = loadAll(filled());
    expect(found.postern).toEqual(load({}).postern);
    expect(found.x402).toMatchObject(x402Defaults());
    expect(found.warnings).toEqual([]);
  });

  /** What a file with only the keys that have no default says. */
  function x402Defaults() {
    const token =
      'network = "eip155:1"\nasset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"\nsymbol = "A"\ndecimals = 6';
    const domain = 'eip3009_name = "A"\neip3009_version = "1"\nrate_per_native_unit = "1"';
    const payTo = 'pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"\nrpc_url = "https://a.example"';
    const top = 'public_url = "https://a.example"\nfacilitator_url = "https://a.example"\nquote_secret = "x"';
    const { x402 } = loadAll({ "x402.toml": `${top}\n[[accepted_tokens]]\n${token}\n${domain}\n${payTo}\n` });
    const { public_url, facilitator_url, facilitator_headers, quote_secret, ...defaults } = x402!;
    const { accepted_tokens, job_policies, ...rest } = defaults;
    expect(job_policies).toEqual([]);
    const { transfer_method, confirmations } = accepted_tokens[0]!;
    return { ...rest, accepted_tokens: [{ transfer_method, confirmations }, {}] };
  }

  test("names every key there is", () => {
    const text = Object.values(files()).join("\n");
    const keys = (value: object): string[] =>
      Object.entries(value).flatMap(([key, inner]) => [
        key,
        ...(inner?.constructor === Object ? keys(inner) : []),
      ]);
    const endpointKeys = [
      "path",
      "job_id",
      "name",
      "auth",
      "secret",
      "api_key_header",
      "idempotency_header",
      "idempotency_window_secs",
      "body_limit_bytes",
      "encoded_bodies",
      "signature_over",
    ];
    const { x402 } = loadAll(filled());
    for (const key of [
      ...keys(load({}).postern),
      ...endpointKeys,
      "ops_address",
      "oldest_age_secs_max",
      "request_timeout_secs",
      ...Object.keys(x402!),
      ...x402!.accepted_tokens.flatMap(Object.keys),
      ...x402!.job_policies.flatMap(Object.keys),
    ]) {
      expect(text).toMatch(new RegExp(`\\b${key}\\b`));
    }
    expect(new Set(x402!.job_policies.map(policyKind)).size).toBe(3);
  });

  const policyKind = (policy: { invocation_mode: string; auth_mode?: string }) =>
    `${policy.invocation_mode} ${policy.auth_mode}`;
});
