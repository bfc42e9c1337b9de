import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { readX402 } from "../../../shared/pricing/read-x402.ts";
import { readDocument } from "../../docs/blocks.ts";
import { dirWith, type Files, filledExample, placedProblemsOf } from "./files.ts";

/* The exact messages about mistakes that an operator reads. */

/** Returns the values of `auth` in the table of docs/webhooks.md: "a", "b" or "c". */
function documentedWays(): string {
  const [, table = ""] = readDocument("docs/webhooks.md").split("| `auth` | The request must have |\n");
  const [rows = ""] = table.split("\n\n");
  const ways = [...rows.matchAll(/^\| `(.+?)` \|/gm)].map(([, way]) => `"${way}"`);
  return `${ways.slice(0, -1).join(", ")} or ${ways.at(-1)}`;
}

const messagesOf = (files: Files) =>
  placedProblemsOf(() => loadConfig(readWebhooks, { dir: dirWith(files), env: {} }));
const endpoint = (...lines: string[]) => ["[[endpoints]]", ...lines, ""].join("\n");
const open = (path: string) => endpoint(`path = "${path}"`, "job_id = 1", 'auth = "none"');

test("a problem of an endpoint names the file, the line and the endpoint by its path", () => {
  const webhooks = [
    'bind_address = "127.0.0.1:9090"\n',
    open("/hooks/a"),
    endpoint('path = "/hooks/acme"', "job_id = 1", 'auth = "bearer"'),
    endpoint(
      'path = "/hooks/b"',
      "",
      'secret = ["a secret of the test", ""]',
      'auth = "bearer"',
      "job_id = -1",
    ),
  ].join("\n");
  expect(messagesOf({ "webhooks.toml": webhooks })).toEqual([
    "webhooks.toml:8: endpoint /hooks/acme: secret: is missing",
    "webhooks.toml:16: endpoint /hooks/b: secret[1]: is empty",
    "webhooks.toml:18: endpoint /hooks/b: job_id: must be at least 0, not -1",
  ]);
});

test("an endpoint with an invalid path is named by that value, and one without a path by its position", () => {
  const toml =
    endpoint('path = "hooks"', "job_id = 1", 'auth = "none"') + endpoint("job_id = 1", 'auth = "none"');
  expect(messagesOf({ "webhooks.toml": toml })).toEqual([
    'webhooks.toml:2: endpoint "hooks": path: must start with /',
    "webhooks.toml:5: endpoints[1].path: is missing",
  ]);
});

test("a path of two endpoints is reported with the lines of both", () => {
  expect(messagesOf({ "webhooks.toml": `${open("/a")}${open("/b")}${open("/a")}` })).toEqual([
    "webhooks.toml:10: endpoint /a: path: must be unique: another endpoint has this path (line 2)",
  ]);
});

test.each([
  ["postern.toml", "[redis]\nurll = 1", "2: redis.urll: unknown key; did you mean url?"],
  ["postern.toml", "drain_sec = 1", "1: drain_sec: unknown key; did you mean drain_secs?"],
  ["postern.toml", "[limit]\nx = 1", "1: limit: unknown key; did you mean limits?"],
  [
    "postern.toml",
    "[producer]\nbackoff.baseMs = 1",
    "2: producer.backoff.baseMs: unknown key; did you mean base_ms?",
  ],
  [
    "postern.toml",
    '[jobs."7/1"]\nconcurency = 1',
    "2: jobs.7/1.concurency: unknown key; did you mean concurrency?",
  ],
  ["postern.toml", "something = 1", "1: something: unknown key"],
  [
    "postern.toml",
    '[redis]\ndurability = "Strict"',
    '2: redis.durability: must be "strict", "replicated", "managed" or "relaxed"; did you mean "strict"?',
  ],
  [
    "postern.toml",
    '[http]\ntrusted_proxies = ["10.0.0.1"]\nforwarded_header = "X-Forward-For"',
    '3: http.forwarded_header: must be "X-Forwarded-For" or "Forwarded"; did you mean "X-Forwarded-For"?',
  ],
])("a wrong key or value of %s is reported with a suggestion: %s", (file, toml, problem) => {
  expect(messagesOf({ [file]: toml })).toEqual([`${file}:${problem}`]);
});

test.each([
  ['auth = "none"\nsecert = "x"', 5, "secert: unknown key; did you mean secret?"],
  ['auth = "none"\nsecret = "x"', 5, 'secret: is not used with auth = "none"'],
  ['auth = "none"\nforward-headers = []', 5, "forward-headers: unknown key; did you mean forward_headers?"],
  ['auth = "api_key"', 4, `auth: must be ${documentedWays()}; did you mean "api-key"?`],
  ['auth = "none"\nmethods = ["Post"]', 5, 'methods[0]: must be "POST" or "PUT"; did you mean "POST"?'],
  ['preset = "gihtub"', 4, 'preset: must be a known preset, not "gihtub"; did you mean github?'],
  ['preset = "GitHub"', 4, 'preset: must be a known preset, not "GitHub"; did you mean github?'],
  [
    'auth = "none"\nencoded_bodies = "decoded"',
    5,
    'encoded_bodies: must be "refuse" or "decode"; did you mean "decode"?',
  ],
  [
    'auth = "signature"\nsecret = "0123456789abcdef"\n[endpoints.signature]\nheader = "X-S"\nalgorithm = "hmac-sha-256"',
    8,
    'signature.algorithm: must be "hmac-sha1", "hmac-sha256", "hmac-sha512", "sha256", "keccak-256", "ed25519", "ecdsa-p256" or "equal"; did you mean "hmac-sha256"?',
  ],
] as [string, number, string][])(
  "the exact message about the mistake in an endpoint: %j",
  (lines, line, problem) => {
    const toml = `[[endpoints]]\npath = "/hooks/a"\njob_id = 1\n${lines}\n`;
    expect(messagesOf({ "webhooks.toml": toml })).toContain(
      `webhooks.toml:${line}: endpoint /hooks/a: ${problem}`,
    );
  },
);

test("a misspelt key in an endpoint with a preset is reported with a suggestion", () => {
  expect(messagesOf({ "webhooks.toml": endpoint('path = "/a"', "job_id = 1", 'prest = "github"') })).toEqual([
    "webhooks.toml:4: endpoint /a: prest: unknown key; did you mean preset?",
  ]);
});

test("a wrong value of auth does not hide a misspelt key beside it", () => {
  const lines = ['path = "/a"', "job_id = 1", 'auth = "hmac-sha265"', 'secert = "x"'];
  expect(messagesOf({ "webhooks.toml": endpoint(...lines) })).toEqual([
    expect.stringMatching(/^webhooks\.toml:4: endpoint \/a: auth: must be .*; did you mean "hmac-sha256"\?$/),
    "webhooks.toml:5: endpoint /a: secert: unknown key; did you mean secret?",
  ]);
});

test.each([
  ['body.action === "opened"', "is not a valid expression: Unexpected character: = (at character 15)"],
  ['body.ref.matches("^a+$")', "must not use the function matches"],
  [`body.a == "${"a".repeat(1014)}"`, "must have at most 1024 characters"],
])("an invalid filter expression is refused with its endpoint and its error: %s", (when, problem) => {
  expect(
    messagesOf({
      "webhooks.toml": endpoint('path = "/a"', "job_id = 1", 'auth = "none"', `when = '${when}'`),
    }),
  ).toEqual([`webhooks.toml:5: endpoint /a: when: ${problem}`]);
});

test.each([
  ["/hooks/:id", ":id"],
  ["/hooks/*", "*"],
  ["/hooks/{id}", "{"],
  ["/hooks/(a|b)", "("],
  ["/hooks/<id>", "<"],
  ["/hooks/[id]", "["],
])("the path %s is refused with a hint about patterns", (path, pattern) => {
  expect(messagesOf({ "webhooks.toml": open(path) })).toEqual([
    `webhooks.toml:2: endpoint ${path}: path: must not contain the pattern ${pattern}: paths are matched exactly; give each path its own endpoint, or choose the job with route_by`,
  ]);
});

test.each([
  ['drain_secs = "5"', "drain_secs: must be a number"],
  ["drain_secs = 301", "drain_secs: must be at most 300, not 301"],
  ["drain_secs = 9007199254740993", "drain_secs: must be a number between -2^53 and 2^53"],
  ['producer.attempts = "5"', "producer.attempts: must be an integer"],
  ["producer.attempts = 1.5", "producer.attempts: must be an integer"],
  ["producer.attempts = 0", "producer.attempts: must be at least 1, not 0"],
  ["producer.attempts = 9007199254740993", "producer.attempts: must be an integer between -2^53 and 2^53"],
  ["limits.redis_memory_ratio_max = 0", "limits.redis_memory_ratio_max: must be above 0, not 0"],
])("a number that a key does not accept is reported with the type or the limit: %s", (line, problem) => {
  expect(messagesOf({ "postern.toml": line })).toEqual([`postern.toml:1: ${problem}`]);
});

test("a path may contain a colon that begins no name, and a percent escape", () => {
  for (const path of ["/hooks/a:b", "/hooks/12:30", "/a/:1", "/a%20b", "/~x/@y;z=1"])
    expect(messagesOf({ "webhooks.toml": open(path) })).toEqual([]);
});

test("a file that is not TOML is reported with the line", () => {
  expect(messagesOf({ "postern.toml": "a = 1\nb = = 2" })).toEqual([
    "postern.toml:2: Invalid TOML document: invalid value",
  ]);
});

test("a misspelt file name is reported with a suggestion", () => {
  const [problem] = messagesOf({ "webhook.toml": "" });
  expect(problem).toMatch(
    /^webhook\.toml: is not a Postern file \(known: .*\); did you mean webhooks\.toml\?$/,
  );
});

test.each([
  ['network = "eip155:8453"', 'network = "base"', '"eip155:8453"; did you mean "eip155:8453"?'],
  ['network = "eip155:84532"', 'network = "base-sepola"', '"eip155:8453"; did you mean "eip155:84532"?'],
  ['network = "eip155:8453"', 'network = "8453"', '"eip155:8453"; did you mean "eip155:8453"?'],
])(
  "a network of x402.toml in another notation is reported with the right one: %s for %s",
  (right, wrong, end) => {
    const example = filledExample("x402.toml");
    const line = example.slice(0, example.indexOf(right)).split("\n").length;
    const files = {
      "x402.toml": example.replace(right, wrong),
      "job_pricing.toml": filledExample("job_pricing.toml"),
    };
    expect(placedProblemsOf(() => loadConfig(readX402, { dir: dirWith(files), env: {} }))).toEqual([
      expect.stringMatching(
        new RegExp(
          `^x402\\.toml:${line}: accepted_tokens\\[\\d\\]\\.network: must be "eip155:" and a decimal chain id, such as ${end.replace("?", "\\?")}$`,
        ),
      ),
    ]);
  },
);

test.each([
  [
    'invocation_mode = "disabled"',
    'invocation_mode = "disable"',
    'must be "public_paid", "disabled" or "restricted_paid"; did you mean "disabled"?',
  ],
  [
    'auth_mode = "payer_is_caller"',
    'auth_mode = "payer-is-caller"',
    'must be "payer_is_caller" or "delegated_caller_signature"; did you mean "payer_is_caller"?',
  ],
  [
    'settlement_proof = "receipt"',
    'settlement_proof = "reciept"',
    'must be "receipt" or "facilitator"; did you mean "receipt"?',
  ],
  [
    'transfer_method = "eip3009"',
    'transfer_method = "eip-3009"',
    'must be "eip3009" or "permit2"; did you mean "eip3009"?',
  ],
  [
    'default_invocation_mode = "public_paid"',
    'default_invocation_mode = "public"',
    'must be "public_paid" or "disabled"; did you mean "public_paid"?',
  ],
])(
  "a wrong value of a closed set in x402.toml is reported with a suggestion: %s for %s",
  (right, wrong, problem) => {
    const example = filledExample("x402.toml");
    const line = example.slice(0, example.indexOf(right)).split("\n").length;
    const files = {
      "x402.toml": example.replace(right, wrong),
      "job_pricing.toml": filledExample("job_pricing.toml"),
    };
    const [first] = placedProblemsOf(() => loadConfig(readX402, { dir: dirWith(files), env: {} }));
    expect(first).toMatch(new RegExp(`^x402\\.toml:${line}: [\\w.[\\]]+: ${problem.replace("?", "\\?")}$`));
  },
);
