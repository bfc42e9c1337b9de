import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { type ConfigTables, readTables, writeConfig } from "../../../shared/config/config-tables.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { dirWith, type Files, problemsOf } from "./files.ts";

const load = (files: Files, env = {}) => loadConfig(readWebhooks, { dir: dirWith(files), env });
const problems = (files: Files, env = {}) => problemsOf(() => load(files, env));
const endpoint = (lines: string) => `[[endpoints]]\npath = "/a"\njob_id = 1\n${lines}\n`;

const CANARY = "canary-canary-canary";

test("a secret is literal, or from the environment or a file without its last line break", () => {
  const dir = tempDir();
  writeFileSync(join(dir, "secret"), `from a file ${CANARY}\n`);
  const secrets = ['"literal 0123456789"', '"env:HOOK"', `"file:${join(dir, "secret")}"`];
  const config = load(
    { "webhooks.toml": endpoint(`auth = "bearer"\nsecret = [${secrets.join(", ")}]`) },
    { HOOK: "from the environment\r\n" },
  );
  const [first] = config.webhooks?.endpoints ?? [];
  const values = first?.auth === "bearer" ? first.secret.map((secret) => secret.reveal()) : [];
  expect(values).toEqual(["literal 0123456789", "from the environment", `from a file ${CANARY}`]);
});

test("the secrets of a configuration cannot be printed", () => {
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

test("no problem of a configuration contains a secret", () => {
  const found = problems({
    "webhooks.toml": endpoint(`auth = "none"\nsecret = "${CANARY}"`),
    "postern.toml": `[redis]\nurl = "http://${CANARY}"`,
  });
  expect(found).not.toHaveLength(0);
  expect(found.join("\n")).not.toContain(CANARY);
});

test("a secret under 16 bytes is accepted with a warning", () => {
  const { warnings } = load({
    "webhooks.toml": endpoint('auth = "bearer"\nsecret = ["short", "long enough to be one"]'),
  });
  expect(warnings).toEqual([expect.stringMatching(/^webhooks\.toml: endpoint \/a: secret\[0\]: .*5 bytes/)]);
});

test("a secret that is empty, in the configuration, the environment or a file, is refused", () => {
  const dir = tempDir();
  writeFileSync(join(dir, "empty"), "\n");
  for (const value of ["", "env:EMPTY", `file:${join(dir, "empty")}`]) {
    const files = { "webhooks.toml": endpoint(`auth = "bearer"\nsecret = "${value}"`) };
    expect(problems(files, { EMPTY: "" })).toEqual([expect.stringMatching(/secret: is empty/)]);
  }
});

test("of several line breaks at the end of a secret, only one is removed", () => {
  const config = load(
    { "webhooks.toml": endpoint('auth = "bearer"\nsecret = "env:HOOK"') },
    { HOOK: "long enough to be one\n\n" },
  );
  const [first] = config.webhooks?.endpoints ?? [];
  expect(first?.auth === "bearer" && first.secret[0]?.reveal()).toBe("long enough to be one\n");
});

test.each([
  [" a secret of one's own", "white space"],
  ["a secret of one's own\n", "white space"],
  ["a secret of\none's own", "line break"],
  ["a secret of\r\n\r\none's own", "line break"],
  ["'a secret of one self'", "quotes"],
  ['"a secret of one self"', "quotes"],
  ["$POSTERN_HOOK_SECRET", "variable"],
  [`\${POSTERN_HOOK_SECRET}`, "variable"],
])("the secret %j is accepted, with a warning that does not contain it", (secret, warned) => {
  const { warnings } = load({
    "webhooks.toml": endpoint(`auth = "bearer"\nsecret = ${JSON.stringify(secret)}`),
  });
  expect(warnings).toEqual([expect.stringContaining(`webhooks.toml: endpoint /a: secret: `)]);
  expect(warnings[0]).toContain(warned);
  expect(warnings[0]).not.toContain(secret.trim());
});

test.each(["ENV:HOOK", "Env:HOOK", "FILE:/run/secrets/hook"])("the secret %s is refused", (secret) => {
  const found = problems({ "webhooks.toml": endpoint(`auth = "bearer"\nsecret = "${secret}"`) });
  const word = secret.slice(0, secret.indexOf(":") + 1).toLowerCase();
  expect(found).toEqual([
    expect.stringContaining(`endpoint /a: secret: must start with ${word} in lower case`),
  ]);
});

test("a copy of the files in another folder names the same files of secrets, and changes no other text", () => {
  const tables = (path: string): ConfigTables => ({
    postern: {
      redis: { password: path, sentinel_password: path, tls: { ca: path, cert: path, key: path } },
      runner: { secret: path, redis: { url: path } },
      runners: { a: { secret: path } },
    },
    webhooks: {
      endpoints: [
        {
          ...{ secret: [path, "env:HOOK"], verify_token: path, name: "file:name" },
          answer: { body: "file: received" },
          handshakes: [{ headers: { a: "file:a" }, json: { secret: "file:b" } }],
        },
      ],
    },
    x402: {
      ...{ quote_secret: path, facilitator_headers: { "x.y": path } },
      facilitators: [{ headers: { a: path }, cdp: { key_id: path, key_secret: path } }],
      accepted_tokens: [
        { rpc_url: path, rate_per_native_unit: { of: [{ url: path, headers: { a: path } }] } },
      ],
    },
    pricing: { key: path, domain: { name: "file:name" } },
    operator: { tokens: [{ name: "file:name", token: path }] },
  });
  const dir = tempDir();
  mkdirSync(join(dir, "secrets"));
  writeFileSync(join(dir, "secrets/a"), "a secret");
  writeConfig(dir, tables("file:secrets/a"));
  expect(readTables(dir)).toEqual(tables(`file:${join(dir, "secrets/a")}`));
});
