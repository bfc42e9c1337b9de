import { createHash, createHmac } from "node:crypto";
import { createSignature } from "http-message-sig";
import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../../shared/telemetry/rejected/list.ts";
import type { HttpAlgorithm } from "../../../../shared/webhook-auth/keys/algorithms.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { sample } from "../../../support/long-run.ts";
import {
  BODY,
  COMPONENTS,
  deliver,
  endpointFor,
  NOW_SEC,
  PAIRS,
  PUBLIC_URL,
  pemOf,
  SECRET,
  type Signing,
  signed,
} from "./sender.ts";

const webhooks = useWebhooks();
const ALGORITHMS: readonly HttpAlgorithm[] = [
  "ed25519",
  "ecdsa-p256-sha256",
  "rsa-pss-sha512",
  "hmac-sha256",
];
const endpointOf = (algorithm: HttpAlgorithm) => ({
  ...endpointFor({ algorithm }),
  path: `/${algorithm}`,
  secret: algorithm === "hmac-sha256" ? SECRET : pemOf(PAIRS[algorithm].publicKey),
});

let now: number;
let gateway: TestWebhooks;
beforeEach(async () => {
  now = NOW_SEC;
  const endpoints = [
    endpointFor({}),
    ...ALGORITHMS.map(endpointOf),
    {
      ...endpointFor({ tag: "shop", components: [...COMPONENTS, "x-id"] }),
      path: "/tagged",
      delivery_id: "{header:X-Id}",
    },
    { ...endpointFor({}), path: "/decoded", encoded_bodies: "decode" },
  ];
  gateway = await webhooks.start({
    endpoints,
    clock: () => now * 1000,
    webhooks: { refusals_per_minute: 1000 },
  });
});

/** Returns the reasons of the latest refusals. They are unordered, because the test's clock does not move. */
async function reasons(refusals: number): Promise<(string | undefined)[]> {
  const list = createRejectedList(webhooks.redis.partition);
  const newest = async () => (await list.matching({}, 10)).newest;
  await eventually("all are recorded", async () => (await newest()).length === refusals);
  return (await newest()).map((entry) => entry.reason);
}

async function reason(): Promise<string | undefined> {
  return (await reasons(1))[0];
}

test.each(ALGORITHMS)(
  "a request that an independent library signs with %s becomes a call",
  async (algorithm) => {
    const key = algorithm === "hmac-sha256" ? SECRET : PAIRS[algorithm].privateKey;
    const headers = await signed({ algorithm, key });
    const answer = await send(gateway.address, { path: `/${algorithm}`, headers, body: BODY });
    expect(answer.status).toBe(202);
    expect(Buffer.from((await webhooks.onlyCall()).body, "base64").toString()).toBe(BODY);
  },
);

test("a request that a second independent library signs, with sha-512 and several lines of one header, becomes a call", async () => {
  const { privateKey } = PAIRS.ed25519;
  const digest = `sha-512=:${createHash("sha512").update(BODY).digest("base64")}:, unixsum=:AAA=:`;
  const fields = [
    { name: "Content-Digest", value: digest },
    { name: "Forwarded", value: "for=192.0.2.1" },
    { name: "Forwarded", value: " for=192.0.2.2" },
  ];
  const { signature, signatureInput } = await createSignature(
    { kind: "request", method: "POST", targetUri: `${PUBLIC_URL}?a=b%20c&d`, fields },
    {
      components: ["@method", "@authority", "@path", "@query", "content-digest", "forwarded"],
      parameters: { created: NOW_SEC, nonce: 'a "nonce"', expires: NOW_SEC + 60 },
      signer: {
        algorithm: "ed25519",
        sign: async (data) => (await import("node:crypto")).sign(null, data, privateKey),
      },
    },
  );
  const headers = [
    ...fields.flatMap(({ name, value }) => [name, value]),
    "Signature-Input",
    signatureInput,
    "Signature",
    signature,
  ];
  const answer = await send(gateway.address, { path: "/signed?a=b%20c&d", headers, body: BODY });
  expect(answer.status).toBe(202);
});

test("single query parameters can be signed, encoded as the standard shows", async () => {
  const query =
    "var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something";
  const names = ["var", "bar", "fa%C3%A7ade%22%3A%20"];
  const components = [
    "@method",
    "@authority",
    "@path",
    "content-digest",
    "@query",
    ...names.map((name) => `"@query-param";name="${name}"`),
  ];
  const headers = await signed({ components, url: `${PUBLIC_URL}?${query}` });
  expect((await send(gateway.address, { path: `/signed?${query}`, headers, body: BODY })).status).toBe(202);
});

test("a signed parameter that occurs twice in the query is refused", async () => {
  const components = [...COMPONENTS, '"@query-param";name="a"'];
  const headers = await signed({ components, url: `${PUBLIC_URL}?a=1` });
  expect((await send(gateway.address, { path: "/signed?a=1&a=1", headers, body: BODY })).status).toBe(401);
  expect(await reason()).toBe("repeated: a query parameter that is signed");
});

test("the digest of an empty body is verified", async () => {
  expect((await deliver(gateway.address, { body: "" })).status).toBe(202);
  const headers = await signed({ body: "" });
  expect((await send(gateway.address, { path: "/signed", headers, body: "x" })).status).toBe(401);
});

test("the coding of a body that is decoded must be signed, so that it cannot be removed, added or changed", async () => {
  const { gzipSync } = await import("node:zlib");
  const components = [...COMPONENTS, "content-encoding"];
  const digestOf = (body: Buffer) => `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
  const sendAs = async (headers: Record<string, string>, body: Buffer) =>
    (await send(gateway.address, { path: "/decoded", headers, body })).status;
  const coded = gzipSync(BODY);
  const coding = { "Content-Encoding": "gzip", "Content-Digest": digestOf(coded) };
  const { "Content-Encoding": _, ...removed } = await signed({ components, headers: coding });
  expect(await sendAs(removed, coded)).toBe(401);
  expect(await sendAs({ ...removed, "Content-Encoding": "deflate" }, coded)).toBe(401);
  expect(await sendAs(await signed({ headers: coding }), coded)).toBe(401);
  expect(await reasons(3)).toContain("mismatch: the signature does not cover content-encoding");
  expect(await sendAs({ ...(await signed({})), "Content-Encoding": "gzip" }, Buffer.from(BODY))).toBe(401);
  expect(await webhooks.waiting()).toEqual([]);
});

test("the digest covers the body as received, even if the body is encoded", async () => {
  const { gzipSync } = await import("node:zlib");
  const coded = gzipSync(BODY);
  const digest = `sha-256=:${createHash("sha256").update(coded).digest("base64")}:`;
  const components = [...COMPONENTS, "content-encoding"];
  const coding = { "Content-Encoding": "gzip", "Content-Digest": digest };
  const headers = await signed({ components, headers: coding });
  expect((await send(gateway.address, { path: "/decoded", headers, body: coded })).status).toBe(202);
  expect(Buffer.from((await webhooks.onlyCall()).body, "base64").toString()).toBe(BODY);
  const ofDecoded = await signed({ headers: { "Content-Encoding": "gzip" } });
  expect((await send(gateway.address, { path: "/decoded", headers: ofDecoded, body: coded })).status).toBe(
    401,
  );
});

test("a signature that covers the delivery id makes one call, no matter how often it is sent within its time", async () => {
  const headers = await signed({
    components: [...COMPONENTS, "x-id"],
    headers: { "X-Id": "id-1" },
    parameters: { tag: "shop" },
  });
  const again = () => send(gateway.address, { path: "/tagged", headers, body: BODY });
  const answers = [await again(), await again()];
  expect(
    answers.map(({ status, headers: { "idempotent-replayed": replayed } }) => [status, replayed]),
  ).toEqual([
    [202, undefined],
    [202, "true"],
  ]);
  now = NOW_SEC + 301;
  expect((await again()).status).toBe(401);
  await webhooks.onlyCall();
});

test("an additional signature for another application is ignored, and proves nothing", async () => {
  const mine = await signed({
    components: [...COMPONENTS, "x-id"],
    headers: { "X-Id": "1" },
    parameters: { tag: "shop" },
  });
  const theirs = await signed({ headers: { "X-Id": "1" }, parameters: { tag: "proxy" }, label: "sig2" });
  const both = {
    ...mine,
    "Signature-Input": `${theirs["Signature-Input"]}, ${mine["Signature-Input"]}`,
    Signature: `${theirs["Signature"]}, ${mine["Signature"]}`,
  };
  expect((await send(gateway.address, { path: "/tagged", headers: both, body: BODY })).status).toBe(202);
  expect((await send(gateway.address, { path: "/tagged", headers: theirs, body: BODY })).status).toBe(401);
  expect(await reason()).toBe("mismatch: no signature has the tag shop");
});

const at = (sec: number) => new Date(sec * 1000);
const REFUSED: [what: string, signing: Signing, reason: string][] = [
  ["that is too old", { parameters: { created: at(NOW_SEC - 301) } }, "stale: signed 301 s before"],
  ["from the future", { parameters: { created: at(NOW_SEC + 61) } }, "early: signed 61 s after"],
  ["that has expired", { parameters: { expires: at(NOW_SEC) } }, "stale: the signature has expired"],
  ["without created", { parameters: { created: undefined } }, "malformed: the signature must have created"],
  ["by another algorithm", { parameters: { alg: "hmac-sha256" } }, "mismatch: alg must be ed25519"],
  [
    "without the method",
    { components: COMPONENTS.slice(1) },
    "mismatch: the signature does not cover @method",
  ],
  [
    "without the URL",
    { components: ["@method", "@authority", "content-digest"] },
    "mismatch: the signature does not cover @target-uri, or @authority and @path",
  ],
  [
    "without the query",
    { url: `${PUBLIC_URL}?a=1`, components: ["@method", "@authority", "@path", "content-digest"] },
    "mismatch: the signature does not cover @target-uri, or @authority and @path and @query",
  ],
  [
    "without the digest",
    { components: ["@method", "@target-uri"] },
    "mismatch: the signature does not cover content-digest",
  ],
  ["of another method", { method: "PUT" }, "mismatch"],
  ["for another host", { url: "https://other.example.com/signed" }, "mismatch"],
  ["for plain HTTP", { url: "http://hooks.example.com/signed" }, "mismatch"],
  [
    "by another key",
    {
      key: PAIRS["ecdsa-p256-sha256"].privateKey,
      algorithm: "ecdsa-p256-sha256",
      parameters: { alg: undefined },
    },
    "mismatch",
  ],
];

test.each(sample(REFUSED, 5))("a signature %s is refused", async (_what, signing, why) => {
  const headers = await signed(signing);
  const { search } = new URL(signing.url ?? PUBLIC_URL);
  const answer = await send(gateway.address, { path: `/signed${search}`, headers, body: BODY });
  expect(answer.status).toBe(401);
  expect(await reason()).toMatch(new RegExp(`^${why.replace(/[-@ ]/g, (each) => each)}`));
});

test("a signature that omits the query is refused for another query", async () => {
  const headers = await signed();
  expect((await send(gateway.address, { path: "/signed?a=1", headers, body: BODY })).status).toBe(401);
});

test("the request's Host has no influence on the signed URL", async () => {
  const forOther = await signed({ url: "https://other.example.com/signed" });
  const headers = { ...forOther, Host: "other.example.com" };
  expect((await send(gateway.address, { path: "/signed", headers, body: BODY })).status).toBe(401);
});

test("a changed body is refused with both the signed digest and its own digest", async () => {
  const headers = await signed();
  expect((await send(gateway.address, { path: "/signed", headers, body: `${BODY} ` })).status).toBe(401);
  expect(await reason()).toBe("mismatch: the digest of the body differs from content-digest");
  const digest = `sha-256=:${createHash("sha256").update(`${BODY} `).digest("base64")}:`;
  const changed = { ...headers, "Content-Digest": digest };
  expect((await send(gateway.address, { path: "/signed", headers: changed, body: `${BODY} ` })).status).toBe(
    401,
  );
});

const hashOf = (name: string, body = BODY) => createHash(name).update(body).digest("base64");

const DIGESTS: [string, string][] = [
  ["only md5 and sha", `md5=:${hashOf("md5")}:, sha=:${hashOf("sha1")}:`],
  [
    "a correct sha-256 and a wrong sha-512",
    `sha-256=:${hashOf("sha256")}:, sha-512=:${hashOf("sha512", "other")}:`,
  ],
  ["a sha-256 that is repeated", `sha-256=:${hashOf("sha256")}:, sha-256=:${hashOf("sha256")}:`],
  ["a sha-256 of too few bytes", `sha-256=:${hashOf("md5")}:`],
  ["a sha-256 in quotes", `sha-256="${hashOf("sha256")}"`],
  ["a text that is not a structured field", "sha-256"],
];
test.each(sample(DIGESTS, 2))(
  "a content-digest with %s is refused, though it is signed",
  async (_what, digest) => {
    expect((await deliver(gateway.address, { headers: { "Content-Digest": digest } })).status).toBe(401);
  },
);

test("a public key is not a secret, so a MAC under it is refused", async () => {
  const headers = await signed({ parameters: { alg: undefined } });
  const input = headers["Signature-Input"]!.replace("sig1=", "");
  const base = `"@method": POST\n"@target-uri": ${PUBLIC_URL}\n"content-digest": ${headers["Content-Digest"]}\n"@signature-params": ${input}`;
  for (const key of [
    pemOf(PAIRS.ed25519.publicKey),
    PAIRS.ed25519.publicKey.export({ format: "der", type: "spki" }),
  ]) {
    const mac = createHmac("sha256", key).update(base).digest("base64");
    const forged = { ...headers, Signature: `sig1=:${mac}:` };
    expect((await send(gateway.address, { path: "/signed", headers: forged, body: BODY })).status).toBe(401);
  }
});

const edit = (name: string, change: (text: string) => string) => (headers: Record<string, string>) => ({
  ...headers,
  [name]: change(headers[name] ?? ""),
});

type Edit = (headers: Record<string, string>) => Record<string, string>;
const EDITED: [string, Edit, string][] = [
  [
    "a repeated label",
    edit("Signature-Input", (text) => `${text}, ${text}`),
    "repeated: a key of signature-input",
  ],
  [
    "a repeated component",
    edit("Signature-Input", (text) => text.replace('"@method"', '"@method" "@method"')),
    "repeated: a component",
  ],
  [
    "a repeated parameter",
    edit("Signature-Input", (text) => `${text};created=1`),
    "repeated: a parameter in signature-input",
  ],
  [
    "an unknown parameter",
    edit("Signature-Input", (text) => `${text};once`),
    "malformed: the parameters of a signature must be among",
  ],
  [
    "a time in quotes",
    edit("Signature-Input", (text) => text.replace(/created=(\d+)/, 'created="$1"')),
    "malformed: created must be an integer",
  ],
  [
    "a keyid that is not text",
    edit("Signature-Input", (text) => text.replace(/keyid="[^"]*"/, "keyid=1")),
    "malformed: keyid must be text in quotes",
  ],
  [
    "a truncated list",
    edit("Signature-Input", (text) => text.slice(0, 20)),
    "malformed: signature-input must be a dictionary",
  ],
  [
    "text after its list",
    edit("Signature-Input", (text) => `${text} more`),
    "malformed: signature-input must be a dictionary",
  ],
  [
    "a signature in a second spelling",
    edit("Signature", (text) => text.replace("==:", ":")),
    "malformed: signature must be a dictionary",
  ],
  [
    "a truncated signature",
    edit("Signature", (text) => text.slice(0, -3)),
    "malformed: signature must be a dictionary",
  ],
  [
    "a signature of another label",
    edit("Signature", (text) => text.replace("sig1", "sig2")),
    "malformed: signature must have the bytes",
  ],
  [
    "five signatures",
    edit("Signature-Input", (text) => [1, 2, 3, 4, 5].map((n) => text.replace("sig1", `sig${n}`)).join(", ")),
    "malformed: signature-input must have at most 4",
  ],
  [
    "too many components",
    edit("Signature-Input", (text) =>
      text.replace("(", `(${Array.from({ length: 1500 }, (_, n) => `"h${n}"`).join(" ")} `),
    ),
    "malformed: signature-input must list at most 64",
  ],
  ...["sf", "bs", "key", "req", "tr"].map(
    (name) =>
      [
        `the parameter ${name} of a component`,
        edit("Signature-Input", (text) => text.replace("(", `("x-a";${name} `)),
        `malformed: the parameter ${name} of a signed component is not supported`,
      ] as [string, Edit, string],
  ),
  [
    "a derived component of a response",
    edit("Signature-Input", (text) => text.replace("(", '("@status" ')),
    "malformed: a component of the signature must be",
  ],
  [
    "a component in upper case",
    edit("Signature-Input", (text) => text.replace("(", '("X-Id" ')),
    "malformed: a component of the signature must be",
  ],
  [
    "a header that is missing",
    edit("Signature-Input", (text) => text.replace("(", '("x-id" ')),
    "missing: header x-id, which is signed",
  ],
  [
    "a query parameter that is missing",
    edit("Signature-Input", (text) => text.replace("(", '("@query-param";name="a" ')),
    "missing: a query parameter",
  ],
  ["no Signature", ({ Signature: _, ...rest }) => rest, "missing: header signature"],
  ["no Content-Digest", ({ "Content-Digest": _, ...rest }) => rest, "missing: header content-digest"],
];
test.each(sample(EDITED, 7))("a request with %s is refused", async (_what, change, why) => {
  expect((await deliver(gateway.address, {}, change)).status).toBe(401);
  expect(await reason()).toContain(why);
});

test.each(sample(["Signature", "Signature-Input", "Content-Digest"]))(
  "two headers %s are refused, even if they are equal",
  async (name) => {
    const headers = await signed();
    const twice = [...Object.entries(headers).flat(), name, headers[name]!];
    expect((await send(gateway.address, { path: "/signed", headers: twice, body: BODY })).status).toBe(401);
    expect(await reason()).toBe(`repeated: header ${name.toLowerCase()}`);
  },
);

test("a signed single-value header that occurs twice is refused, even if the signature covers both", async () => {
  const headers = await signed({
    components: [...COMPONENTS, "content-type"],
    headers: { "Content-Type": "text/plain, application/json" },
  });
  const { "Content-Type": _, ...rest } = headers;
  const both = ["Content-Type", "text/plain", "Content-Type", "application/json"];
  const twice = [...Object.entries(rest).flat(), ...both];
  expect((await send(gateway.address, { path: "/signed", headers, body: BODY })).status).toBe(202);
  expect((await send(gateway.address, { path: "/signed", headers: twice, body: BODY })).status).toBe(401);
  expect(await reason()).toBe("repeated: header content-type");
});

test("the answer names the required headers and those that were sent", async () => {
  const answer = await send(gateway.address, { path: "/signed", headers: { Signature: "a" }, body: BODY });
  expect(answer.json()["detail"]).toBe(
    "no complete credential: this endpoint reads it from signature-input, signature, content-digest; the request has signature",
  );
});
