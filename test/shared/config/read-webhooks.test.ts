import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import type { Reader } from "../../../shared/config/read-postern.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, type Files, placedProblemsOf, problemsOf } from "./files.ts";

const load = (files: Files, env = {}) => loadConfig(readWebhooks, { dir: dirWith(files), env });
const problems = (files: Files, env = {}) => problemsOf(() => load(files, env));

const endpoint = (lines: string) => `[[endpoints]]\npath = "/a"\njob_id = 1\n${lines}\n`;

test("every problem of postern.toml and webhooks.toml is reported at once, with file and key", () => {
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
  const keys = found.map((line) => /^[^:]+: (?:endpoint (?:\/\S+|".*?"): )?[^:]+/.exec(line)?.[0]).sort();
  expect(keys).toEqual([
    "postern.toml: nope",
    "postern.toml: producer.attempts",
    "postern.toml: redis.durability",
    "postern.toml: redis.url",
    "postern.toml: runner.secret[1]",
    "postern.toml: runner.timeout_ms",
    "webhook.toml: is not a Postern file (known",
    "webhooks.toml: bind_address",
    'webhooks.toml: endpoint "/d e": job_id',
    'webhooks.toml: endpoint "/d e": name',
    'webhooks.toml: endpoint "/d e": path',
    'webhooks.toml: endpoint "a": job_id',
    'webhooks.toml: endpoint "a": path',
    'webhooks.toml: endpoint "a": secret',
    "webhooks.toml: endpoint /b: extra",
    "webhooks.toml: endpoint /b: path",
    "webhooks.toml: endpoint /b: secret",
    "webhooks.toml: endpoint /b: secret",
    "webhooks.toml: endpoint /c: api_key_header",
    "webhooks.toml: endpoint /c: secret",
    "webhooks.toml: endpoint /f: idempotency_header",
    "webhooks.toml: endpoint /f: secret",
    "webhooks.toml: endpoint /livez: auth",
    "webhooks.toml: endpoint /livez: path",
  ]);
});

test.each([
  ["10.0.0.1/8", "has bits beyond its prefix: write 10.0.0.0/8"],
  ["proxy.example.com", "must be an address or a range, such as 203.0.113.0/24 or 2001:db8::/32"],
  ["::/0", "must not cover every address"],
  ["0.0.0.0/0", "must not cover every address"],
])("the trusted proxy %s is refused, and its key is named", (range, problem) => {
  const toml = `[http]\ntrusted_proxies = ["10.0.0.0/8", "${range}"]\n`;
  expect(problems({ "postern.toml": toml })).toEqual([
    expect.stringContaining(`postern.toml: http.trusted_proxies[1]: ${problem}`),
  ]);
});

test.each([
  [
    "TOML that does not parse",
    { "postern.toml": "a = 1\nb = = 2" },
    /^postern\.toml: Invalid TOML document: invalid value$/,
  ],
  [
    "a delivery id that is read from the credential's header",
    {
      "webhooks.toml": endpoint(
        'auth = "api-key"\nsecret = "0123456789abcdef"\nidempotency_header = "X-API-KEY"',
      ),
    },
    /idempotency_header: must not read the credential's header/,
  ],
  [
    "an endpoint's path with a query",
    { "webhooks.toml": endpoint('auth = "none"').replace("/a", "/a?b") },
    /endpoint \/a\?b: path: must not contain \?/,
  ],
  [
    "a webhooks.toml without an endpoint",
    { "webhooks.toml": "endpoints = []" },
    /must list at least one endpoint/,
  ],
  [
    "a secret from a variable that is not set",
    { "webhooks.toml": endpoint('auth = "bearer"\nsecret = "env:MISSING"') },
    /MISSING, which is not set/,
  ],
  [
    "a job id beyond 2^53-1",
    { "webhooks.toml": endpoint('auth = "none"').replace("= 1", "= 9007199254740992") },
    /webhooks\.toml/,
  ],
] as [string, Files, RegExp][])(
  "%s is refused as a problem of the configuration",
  (_what, files, problem) => {
    expect(problems(files).join("\n")).toMatch(problem);
  },
);

const signed = (keys: string) => `auth = "signature"\nsecret = "0123456789abcdef"\nsignature = ${keys}`;
const hmac = 'header = "X-S", algorithm = "hmac-sha256"';

test.each([
  ['preset = "gihtub"', 'preset: must be a known preset, not "gihtub"; did you mean github?'],
  ['preset = "discord"', "did you mean discord-interactions or discord-events?"],
  ['preset = "unheard-of"', 'preset: must be a known preset, not "unheard-of"; docs/senders.md lists them'],
  ['prest = "github"', "prest: unknown key; did you mean preset?"],
  ['auth = "apikey"', 'auth: must be "none", "bearer", "basic", "api-key"'],
  [
    'auth = "signature"\nsecret = "0123456789abcdef"',
    "signature: is missing: it must be a table or a list of tables",
  ],
  [signed('{ header = "X-S" }'), 'signature.algorithm: is missing: it must be "hmac-sha1", '],
  [signed('{ header = "X S", algorithm = "hmac-sha256" }'), "signature.header: must be a header name"],
  [
    signed('{ header = 3, algorithm = "hmac-sha256" }'),
    "signature.header: must be a header name or a list of them",
  ],
  [signed(`{ ${hmac}, timestmp = {} }`), "signature.timestmp: unknown key"],
  [
    signed(`{ ${hmac}, signed = "{timestam}.{body}" }`),
    "signature.signed: has an unknown placeholder: {timestam}",
  ],
  [
    signed(`{ ${hmac}, signed = "{timestamp}.{body}" }`),
    "signature.timestamp: is missing: signed contains {timestamp}",
  ],
  [signed('{ algorithm = "hmac-sha256" }'), "signature: must have exactly one of header, query and field"],
  [signed(`[{ ${hmac} }, { ${hmac}, encoding = "hx" }]`), 'signature[1].encoding: must be "hex", '],
  [
    'auth = "none"\nhandshakes = [{ proof = "none", when = { "{heder:X}" = "1" } }]',
    "handshakes[0].when.{heder:X}: has an unknown placeholder: {heder:X}",
  ],
  ['auth = "none"\nhandshakes = [{ proof = "non" }]', 'handshakes[0].proof: must be "none", "credential", '],
  ['auth = "none"\nanswer = { status = 203 }', "answer.status: must be 200, 201, 202 or 204"],
])("the mistake in %j is reported with its key, and with the right value", (lines, problem) => {
  expect(problems({ "webhooks.toml": endpoint(lines) })[0]).toContain(problem);
});

test("a missing configuration folder is refused", () => {
  expect(() => loadConfig(readWebhooks, { dir: "/does/not/exist", env: {} })).toThrow(
    /there is no directory \/does\/not\/exist/,
  );
});

const keeping = endpoint('auth = "none"\nkeep_result = true');

test("an endpoint that keeps results is refused without the secret for result tokens, with its line", () => {
  const placed = (files: Files) => placedProblemsOf(() => load(files));
  const line = keeping.split("\n").indexOf("keep_result = true") + 1;
  expect(placed({ "webhooks.toml": keeping })).toEqual([
    `webhooks.toml:${line}: endpoint /a: keep_result: needs results.secret in postern.toml, which signs result tokens`,
  ]);
  const secret = '[results]\nsecret = ["the new secret of results", "the old secret of results"]';
  expect(placed({ "webhooks.toml": keeping, "postern.toml": secret })).toEqual([]);
});

test("an endpoint whose sender waits for the result keeps it, and needs no secret", () => {
  const waiting = endpoint('auth = "none"\nrespond = "result"');
  const { webhooks } = load({ "webhooks.toml": waiting });
  expect(webhooks?.endpoints[0]).toMatchObject({ respond: "result", keep_result: true });
});

test("a sender that would wait for longer than the limit is refused, with its line", () => {
  const waiting = (more: string) => endpoint(`auth = "none"\nrespond = "result"\n${more}`);
  const ofAll = (secs: number) => `[results]\nwait_secs_max = ${secs}`;
  const found = (webhooks: string, postern: string) =>
    problems({ "webhooks.toml": webhooks, "postern.toml": postern });
  expect(found(waiting("wait_secs = 30"), "")).toEqual([]);
  expect(found(waiting("wait_secs = 31"), "")[0]).toContain(
    "wait_secs: waits for 31 s, but results.wait_secs_max of postern.toml",
  );
  expect(found(waiting(""), ofAll(2))[0]).toContain("respond: waits for 3 s");
  expect(found(waiting(""), ofAll(3))).toEqual([]);
});

test("only gateways, and readers without a kind, need the secret of results", () => {
  const dir = dirWith({ "webhooks.toml": keeping, "postern.toml": '[results]\nsecret = "env:NOT_SET"' });
  const read = (reader?: Reader) =>
    placedProblemsOf(() => loadConfig(readWebhooks, { dir, env: {}, reader }));
  for (const reader of ["producer", "runner", "command", "pricing"] as const)
    expect(read(reader)).toEqual([]);
  for (const reader of ["gateway", undefined] as const) expect(read(reader)[0]).toContain("NOT_SET");
});

test("an endpoint below the path for results is refused", () => {
  for (const path of ["/webhooks/calls/", `/webhooks/calls/c_${"0".repeat(32)}`, "/webhooks/calls/github"]) {
    const toml = `[[endpoints]]\npath = "${path}"\njob_id = 1\nauth = "none"`;
    expect(problems({ "webhooks.toml": toml })).toEqual([
      expect.stringContaining("path: is reserved for Postern: results are at /webhooks/calls/"),
    ]);
  }
});
