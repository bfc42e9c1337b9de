import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readOperator } from "../../../shared/config/read-operator.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { dirWith } from "./files.ts";

const TOKEN = "5f0c4f8e7d1a6b2393ce1f6a0d78b54e";
const token = (name: string, role = "viewer", secret = `"${TOKEN}-${name}"`) =>
  `[[tokens]]\nname = "${name}"\nrole = "${role}"\ntoken = ${secret}\n`;
const load = (text: string, env: NodeJS.ProcessEnv = {}) =>
  loadConfig(readOperator, { dir: dirWith({ "operator.toml": text }), env });

function problemsOf(text: string): string[] {
  try {
    load(text);
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return error.message.split("\n").map((line) => line.replace(/^.*operator\.toml/, ""));
  }
}

test("without operator.toml the console serves only this machine, without a token", () => {
  expect(loadConfig(readOperator, { dir: dirWith({}), env: {} }).operator).toEqual({
    ...{ bind_address: "127.0.0.1:9300", allowed_hosts: [], session_secs: 14_400, tokens: [] },
  });
});

test("tokens come from variables and files like other secrets, and a name may have several", () => {
  const { operator, warnings } = load(
    `bind_address = "0.0.0.0:9300"\npublic_url = "https://ops.example.com/"\n${token("vera", "viewer", `["env:VERA", "${TOKEN}-of-vera"]`)}`,
    { VERA: `the-${TOKEN}-of-vera` },
  );
  expect(operator.tokens[0]?.token.map((secret) => secret.reveal())).toEqual([
    ...[`the-${TOKEN}-of-vera`, `${TOKEN}-of-vera`],
  ]);
  expect(JSON.stringify(operator)).not.toContain("of-vera");
  expect([operator.public_url, warnings]).toEqual(["https://ops.example.com", []]);
});

test.each([
  [
    'bind_address = "0.0.0.0:9300"',
    ":1: bind_address: other machines can reach 0.0.0.0:9300, but no token is configured",
  ],
  [
    'public_url = "https://ops.example.com"',
    ":1: public_url: other machines can reach this URL, but no token is configured",
  ],
  [
    'allowed_hosts = ["ops.example.com"]',
    ":1: allowed_hosts: other machines can reach these hosts, but no token is configured",
  ],
  [
    `allowed_hosts = ["ops.example.com:80"]\n${token("vera")}`,
    ":1: allowed_hosts[0]: must be a host name without a port",
  ],
  [token("vera", "admin"), ':3: tokens[0].role: must be "viewer" or "operator"'],
  [token("v era", "viewer", `"${TOKEN}"`), ":2: tokens[0].name: must be 1 to 64 letters, digits"],
  [token("vera", "viewer", '"short"'), ":4: tokens[0].token: must be at least 16 visible ASCII characters"],
  [
    token("vera", "viewer", '"a token with spaces in it"'),
    ":4: tokens[0].token: must be at least 16 visible ASCII",
  ],
  [
    token("vera", "viewer", '"replace-this-viewer-token"'),
    ":4: tokens[0].token: must not be the placeholder of the example file",
  ],
  [
    token("vera", "viewer", '"env:NOT_SET"'),
    ":4: tokens[0].token: names the environment variable NOT_SET, which is not set",
  ],
  [
    token("vera") + token("vera", "viewer", `"${TOKEN}-2"`),
    ":6: tokens[1].name: must be unique: another token has this name",
  ],
  [
    token("vera", "viewer", `"${TOKEN}"`) + token("otto", "operator", `"${TOKEN}"`),
    ":8: tokens[1].token: must be unique: another name has this token",
  ],
  ["session_secs = 10", ":1: session_secs: must be at least 60"],
  ["tokenz = []", ":1: tokenz: unknown key; did you mean tokens?"],
])("operator.toml with %j is refused, and the problem has its line", (text, problem) => {
  expect(problemsOf(text)).toEqual([expect.stringContaining(problem)]);
});

test("an address that other machines reach without https causes a warning", () => {
  const { warnings } = load(`bind_address = "0.0.0.0:9300"\n${token("vera")}`);
  expect(warnings).toEqual([
    expect.stringMatching(/^operator\.toml: bind_address: tokens and sessions cross the network/),
  ]);
});

test("a token that could be guessed causes a warning with its entry, but without the token", () => {
  const list = `["${TOKEN}-of-otto", "a-token-that-otto-made-up"]`;
  const { warnings } = load(token("vera") + token("otto", "operator", list));
  expect(warnings).toEqual([
    expect.stringMatching(/^operator\.toml: tokens\[1\]\.token: is easy to guess\. /),
  ]);
  expect(warnings.join()).not.toContain("made-up");
});
