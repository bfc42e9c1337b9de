import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import {
  contentDigest,
  isContentDigestOf,
  type ReceivedMessage,
  signatureBase,
  signMessage,
  verifyMessage,
} from "../../../../shared/platform/crypto/message-signature.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";

const SECRET = new Secret("a secret of runner and producer é");
const NOW = 1_700_000_000;
const BODY = Buffer.from("some bytes");

const signed = {
  method: "POST",
  path: "/jobs/7",
  headers: {
    "content-digest": contentDigest(sha256Hex(BODY)),
    "content-type": "text/plain; charset=utf-8",
    "idempotency-key": "c_0123",
    "x-platform-call-id": "c_0123",
    "x-webhook-path": "/hooks/a",
  },
};

type Changed = { method?: string; path?: string; headers?: Record<string, string[] | undefined> };

/** Returns the received message, with the given changes. */
function received(
  { headers = {}, ...line }: Changed = {},
  from = signMessage(SECRET, signed, NOW),
): ReceivedMessage {
  const sent = { ...signed.headers, "signature-input": from["Signature-Input"], signature: from.Signature };
  const all: Record<string, string[] | undefined> = {
    ...Object.fromEntries(Object.entries(sent).map(([name, value]) => [name, [value]])),
    ...headers,
  };
  const present = Object.entries(all).filter((entry): entry is [string, string[]] => entry[1] !== undefined);
  return { method: signed.method, path: signed.path, ...line, headers: Object.fromEntries(present) };
}

function verify(request: ReceivedMessage, { secrets = [SECRET], nowSec = NOW } = {}): void {
  const mustCover = (name: string) => name.startsWith("x-platform-") || name.startsWith("x-webhook-");
  verifyMessage(secrets, request, { nowSec, needs: ["idempotency-key"], mustCover });
}

/** Signs any parameters and lines, as another program with the secret might. */
function signedWith(params: string, lines: string) {
  const mac = createHmac("sha256", SECRET.bytes())
    .update(signatureBase(lines, params), "latin1")
    .digest("base64");
  return { "Signature-Input": `postern=${params}`, Signature: `postern=:${mac}:` };
}

const refused = expect.objectContaining({ code: "runner.signature_rejected" });

test("the signature base of the example in RFC 9421, B.2.5, yields the RFC's signature", () => {
  const key = Buffer.from(
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==",
    "base64",
  );
  const lines = `"date": Tue, 20 Apr 2021 02:07:55 GMT\n"@authority": example.com\n"content-type": application/json\n`;
  const params = `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`;
  const mac = createHmac("sha256", key).update(signatureBase(lines, params)).digest("base64");
  expect(mac).toBe("pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=");
});

test("the sha-256 digest of the example body equals that of RFC 9530, appendix B", () => {
  const digest = contentDigest(sha256Hex(Buffer.from('{"hello": "world"}\n')));
  expect(digest).toBe("sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:");
});

test("a message signed with any of the active secrets is accepted", () => {
  expect(() => verify(received())).not.toThrow();
  expect(() => verify(received(), { secrets: [new Secret("new"), SECRET] })).not.toThrow();
});

test("a message without a Content-Type is signed and accepted", () => {
  const { "content-type": _, ...headers } = signed.headers;
  const bare = signMessage(SECRET, { ...signed, headers }, NOW);
  expect(() => verify(received({ headers: { "content-type": undefined } }, bare))).not.toThrow();
});

test.each<[string, Changed]>([
  ["its method is changed", { method: "PUT" }],
  ["the job in its path is changed", { path: "/jobs/8" }],
  ["its path is one character longer", { path: "/jobs/7/" }],
  [
    "its body digest is changed",
    { headers: { "content-digest": [contentDigest(sha256Hex(Buffer.from("others")))] } },
  ],
  ["its content type is changed", { headers: { "content-type": ["text/html"] } }],
  ["its idempotency key is changed", { headers: { "idempotency-key": ["c_4567"] } }],
  ["the value of a metadata header is changed", { headers: { "x-webhook-path": ["/hooks/b"] } }],
  ["a metadata header was removed", { headers: { "x-webhook-path": undefined } }],
  ["a metadata header was added", { headers: { "x-platform-caller": ["0x00"] } }],
  ["a metadata header is repeated", { headers: { "x-webhook-path": ["/hooks/a", "/hooks/b"] } }],
  ["its content type was removed", { headers: { "content-type": undefined } }],
  ["its signature was removed", { headers: { signature: undefined } }],
  ["its Signature-Input is repeated", { headers: { "signature-input": ["postern=()", "postern=()"] } }],
])("a signed message is refused when %s", (_what, changed) => {
  expect(() => verify(received(changed))).toThrow(refused);
});

test("a message with one character changed in the signed parts or in the signature is refused", () => {
  const request = received();
  const names = Object.keys(request.headers);
  fc.assert(
    fc.property(
      fc.constantFrom(...names),
      fc.nat(),
      fc.integer({ min: 0x21, max: 0x7e }),
      (name, at, code) => {
        const value = request.headers[name]?.[0] ?? "";
        const index = at % value.length;
        const other = value.slice(0, index) + String.fromCharCode(code) + value.slice(index + 1);
        fc.pre(other !== value && !sameSignature(name, other, value));
        expect(() => verify({ ...request, headers: { ...request.headers, [name]: [other] } })).toThrow(
          refused,
        );
      },
    ),
    { numRuns: 500 },
  );
});

/** Returns whether two texts encode the same signature: the last base64 digit before the padding has unused bits. */
function sameSignature(name: string, one: string, other: string): boolean {
  const bytes = (text: string) => Buffer.from(text.slice("postern=:".length), "base64").toString("hex");
  return name === "signature" && /^postern=:[A-Za-z0-9+/]{43}=:$/.test(one) && bytes(one) === bytes(other);
}

test("a message older than the limit, or more than a minute in the future, is refused", () => {
  expect(() => verify(received(), { nowSec: NOW + 300 })).not.toThrow();
  expect(() => verify(received(), { nowSec: NOW + 301 })).toThrow(refused);
  expect(() => verify(received(), { nowSec: NOW - 60 })).not.toThrow();
  expect(() => verify(received(), { nowSec: NOW - 61 })).toThrow(refused);
});

describe("signatures by other programs", () => {
  const [digest, key] = [signed.headers["content-digest"], signed.headers["idempotency-key"]];
  const covered = `"@method" "@path" "content-digest" "idempotency-key"`;
  const lines = `"@method": POST\n"@path": /jobs/7\n"content-digest": ${digest}\n"idempotency-key": ${key}\n`;
  const only = {
    headers: { "content-type": undefined, "x-platform-call-id": undefined, "x-webhook-path": undefined },
  };
  const good = `;created=${NOW};alg="hmac-sha256";tag="postern"`;
  const bare = `;created=${NOW};tag="postern"`;

  test.each([
    ["another algorithm", `(${covered});created=${NOW};alg="hmac-sha512";tag="postern"`, lines],
    ["another tag", `(${covered});created=${NOW};tag="others"`, lines],
    ["no tag", `(${covered});created=${NOW}`, lines],
    ["no creation time", `(${covered});tag="postern"`, lines],
    ["a creation time as text", `(${covered});created="${NOW}";tag="postern"`, lines],
    ["an unknown parameter", `(${covered})${good};expires=${NOW + 10}`, lines],
    ["a repeated parameter", `(${covered});created=${NOW}${bare}`, lines],
    ["a component covered twice", `(${covered} "@path")${good}`, `${lines}"@path": /jobs/7\n`],
    ["an unknown derived component covered", `(${covered} "@authority")${good}`, `${lines}"@authority": a\n`],
    ["a component with parameters covered", `(${covered} "x-a";sf)${good}`, `${lines}"x-a";sf: a\n`],
    ["a covered header that is missing", `(${covered} "x-absent")${good}`, `${lines}"x-absent": \n`],
    [
      "no method covered",
      `("@path" "content-digest" "idempotency-key")${good}`,
      lines.slice(lines.indexOf("\n") + 1),
    ],
    ["nothing covered", `()${good}`, ""],
  ])("a valid signature with %s is refused", (_what, params, base) => {
    expect(() => verify(received(only, signedWith(params, base)))).toThrow(refused);
  });

  test("a signature by another program is accepted if it covers all required components", () => {
    expect(() => verify(received(only, signedWith(`(${covered})${good}`, lines)))).not.toThrow();
    expect(() => verify(received(only, signedWith(`(${covered})${bare};keyid="k"`, lines)))).not.toThrow();
  });
});

test("a Content-Digest is valid only for its own bytes and with one sha-256 member, and other algorithms in it are ignored", () => {
  const hex = sha256Hex(BODY);
  const digest = contentDigest(hex);
  expect(isContentDigestOf([digest], hex)).toBe(true);
  expect(isContentDigestOf([`sha-512=:AAAA:, ${digest}`], hex)).toBe(true);
  expect(isContentDigestOf([digest], sha256Hex(Buffer.from("others")))).toBe(false);
  for (const values of [
    [],
    [""],
    [digest, digest],
    [`${digest},`],
    ["sha-512=:AAAA:"],
    [digest.slice(0, -1)],
  ]) {
    expect(isContentDigestOf(values, hex)).toBe(false);
  }
});
