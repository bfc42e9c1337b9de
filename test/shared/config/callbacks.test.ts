import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { type Reader, readPostern } from "../../../shared/config/read-postern.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, problemsOf } from "./files.ts";

const SECRET = `whsec_${Buffer.alloc(32, "s").toString("base64")}`;
const ENDPOINT = '[[endpoints]]\npath = "/a"\njob_id = 1\nauth = "none"\n';

/** Returns the problems of the table for this reader, or of an endpoint that needs callbacks. */
function problems(
  table: string,
  { endpoint = "", reader }: { endpoint?: string; reader?: Reader | undefined } = {},
) {
  const dir = dirWith({
    "postern.toml": table,
    ...(endpoint && { "webhooks.toml": `${ENDPOINT}${endpoint}` }),
  });
  return problemsOf(() => loadConfig(readWebhooks, { dir, env: {}, reader })).map((line) =>
    line.replace(/^.*?\.toml:?\d*: /, ""),
  );
}

const on = (rest = "") => `[callbacks]\nsecret = "${SECRET}"\n${rest}`;

test.each([undefined, "producer", "gateway", "command", "runner"] as const)(
  "callbacks without a secret stop the start of every process that reads the file: %s",
  (reader) => {
    expect(problems("[callbacks]\n", { reader })).toEqual([
      "callbacks.secret: is missing: receivers verify callbacks with it",
    ]);
    const { postern } = loadConfig(readPostern, { dir: dirWith({ "postern.toml": on() }), env: {}, reader });
    expect(postern.callbacks?.secret?.length).toBe(
      reader === undefined || reader === "producer" ? 1 : undefined,
    );
  },
);

test("only producers need the secret itself", () => {
  const table = '[callbacks]\nsecret = "env:NOT_SET"\n';
  expect(problems(table, { reader: "gateway" })).toEqual([]);
  expect(problems(table, { reader: "producer" })).toEqual([expect.stringContaining("NOT_SET")]);
});

test.each([
  ["no whsec_", Buffer.alloc(32).toString("base64")],
  ["too few bytes", `whsec_${Buffer.alloc(23).toString("base64")}`],
  ["too many bytes", `whsec_${Buffer.alloc(65).toString("base64")}`],
  ["no base64", "whsec_not!base64!at!all!!!!!!!!!!!!!!!!"],
  ["base64 of another alphabet", `whsec_${"_-".repeat(22)}`],
])("a secret in another format is refused: %s", (_what, secret) => {
  expect(problems(`[callbacks]\nsecret = "${secret}"\n`)).toEqual([
    expect.stringMatching(/^callbacks.secret: must be whsec_ and 24 to 64 random bytes in base64/),
  ]);
});

test("several secrets are accepted, so that one can be rotated", () => {
  expect(problems(`[callbacks]\nsecret = ["${SECRET}", "${SECRET}"]\n`)).toEqual([]);
});

test("no list of ranges disables the protection of the own network", () => {
  const everybody =
    "must not cover all addresses together: clients could then send callbacks into your network";
  for (const ranges of ['["0.0.0.0/0"]', '["::/0"]', '["0.0.0.0/1", "128.0.0.0/1"]'])
    expect(problems(on(`allow_cidrs = ${ranges}\n`))).toEqual([`callbacks.allow_cidrs: ${everybody}`]);
  expect(problems(on('allow_cidrs = ["10.0.0.0/8", "fd00::/8"]\n'))).toEqual([]);
});

test("a delivery must end while its lock is held", () => {
  expect(problems(on("timeout_ms = 20000\n"))).toEqual([
    "callbacks.timeout_ms: must be below producer.lock_ms: an attempt must end before its lock expires",
  ]);
});

test.each(['callback_url = "https://a.example"', 'callback_hosts = ["a.example"]'])(
  "an endpoint with %s needs the table [callbacks]",
  (endpoint) => {
    const [key] = endpoint.split(" ");
    for (const reader of [undefined, "gateway"] as const)
      expect(problems("", { endpoint, reader })).toEqual([
        `endpoint /a: ${key}: needs [callbacks] with a secret in postern.toml: without it, no callback is sent`,
      ]);
    expect(problems(on(), { endpoint })).toEqual([]);
  },
);

const CLOSED =
  "callback_url: must be an https URL of a public address, or have its address in callbacks.allow_cidrs of postern.toml";

test.each([
  "https://127.0.0.1:9000/told",
  "http://127.0.0.1:9000/told",
  "http://localhost:9000/told",
  "http://receiver.internal/told",
  "https://198.18.0.1/told",
])("an endpoint's callback_url may be at %s if allow_cidrs contains it", (url) => {
  const allowed = on('allow_cidrs = ["127.0.0.0/8", "198.18.0.0/15"]\n');
  expect(problems(allowed, { endpoint: `callback_url = "${url}"` })).toEqual([]);
});

test("a range of allow_cidrs permits no other address", () => {
  const endpoint = 'callback_url = "https://127.0.0.1/told"';
  expect(problems(on('allow_cidrs = ["10.0.0.0/8"]\n'), { endpoint })).toEqual([`endpoint /a: ${CLOSED}`]);
});

test.each([
  ['callback_url = "ftp://a.example"', "callback_url: must be an https URL"],
  ['callback_url = "https://user@a.example"', "callback_url: must not contain a user or password"],
  ["callback_hosts = []", "callback_hosts: is empty"],
  ['callback_url = "https://127.0.0.1:9000/told"', CLOSED],
  ['callback_url = "https://[::1]/told"', CLOSED],
  ['callback_url = "https://localhost/told"', CLOSED],
  ['callback_url = "https://10.1.2.3/told"', CLOSED],
  ['callback_url = "https://[::ffff:169.254.169.254]/told"', CLOSED],
  ['callback_url = "http://a.example/told"', CLOSED],
  ['callback_hosts = ["https://a.example"]', /^callback_hosts\[0\]: must be a host/],
  [
    'callback_hosts = ["*.com"]',
    "callback_hosts[0]: allows a whole top-level domain: name a domain below it",
  ],
  [
    'callback_url = "https://a.example"\ncallback_hosts = ["b.example"]',
    "callback_hosts: is not used: callback_url gets every callback",
  ],
])("an endpoint with %s is refused", (endpoint, problem) => {
  const [found = "", ...more] = problems(on(), { endpoint });
  expect(found.replace("endpoint /a: ", "")).toEqual(
    typeof problem === "string" ? problem : expect.stringMatching(problem),
  );
  expect(more).toEqual([]);
});

test("a wildcard below a public suffix causes a warning, with or without a port, but other entries do not", () => {
  const hosts =
    '["*.github.io", "*.co.uk:8443", "*.example.org", "a.github.io", "*.a.github.io", "*.internal.lan"]';
  const { warnings } = loadConfig(readWebhooks, {
    dir: dirWith({ "postern.toml": on(), "webhooks.toml": `${ENDPOINT}callback_hosts = ${hosts}\n` }),
    env: {},
  });
  const warning = (place: number, host: string, domain: string) =>
    `webhooks.toml: endpoint /a: callback_hosts[${place}]: ${host} covers hosts of strangers, because ${domain} is a public suffix; ` +
    "list hosts, or wildcards below your own domains";
  expect(warnings).toEqual([warning(0, "*.github.io", "github.io"), warning(1, "*.co.uk:8443", "co.uk")]);
});
