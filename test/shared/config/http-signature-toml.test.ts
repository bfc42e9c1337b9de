import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { endpointProblems, onlyProblem } from "./files.ts";

const pemOf = (type: "rsa" | "rsa-pss" | "ed25519", options = {}) =>
  String(
    generateKeyPairSync(type as "rsa", options as { modulusLength: number }).publicKey.export({
      format: "pem",
      type: "spki",
    }),
  );
const ED25519 = pemOf("ed25519");
/** A key that RFC 4055 restricts to one hash and salt. Node refuses to verify other signatures with it. */
const RESTRICTED = { modulusLength: 2048, hashAlgorithm: "sha256", mgf1HashAlgorithm: "sha256" };
const URL_OF_KEYS = "https://keys.example.com/.well-known/http-message-signatures-directory";

const endpoint = (settings: string, secret: string | undefined) =>
  [
    ...["job_id = 1", 'auth = "http-signature"', 'public_url = "https://a.example/a"'],
    ...(secret === undefined ? [] : [`secret = ${JSON.stringify(secret)}`]),
    `http_signature = { ${settings} }`,
  ].join("\n");

const ed25519 = 'algorithm = "ed25519"';

test.each<[string, string, string | undefined]>([
  ["a key in PEM", ed25519, ED25519],
  [
    "a key as JWK",
    ed25519,
    JSON.stringify({ kty: "OKP", crv: "Ed25519", x: "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs" }),
  ],
  ["a key directory", `${ed25519}, directory = "${URL_OF_KEYS}"`, undefined],
  ["a key directory on this machine", `${ed25519}, directory = "http://127.0.0.1:1/keys"`, undefined],
  ["a shared secret", 'algorithm = "hmac-sha256"', "0123456789abcdef"],
  ["a key for RSA-PSS alone", 'algorithm = "rsa-pss-sha512"', pemOf("rsa-pss", { modulusLength: 2048 })],
])("an endpoint with %s is valid", (_what, settings, secret) => {
  expect(endpointProblems(endpoint(settings, secret))).toEqual([]);
});

test.each<[string, string | undefined, string]>([
  [ed25519, undefined, "secret: is missing: set secret or http_signature.directory"],
  [
    `${ed25519}, directory = "${URL_OF_KEYS}"`,
    ED25519,
    "secret: must not be set together with http_signature.directory",
  ],
  [
    `${ed25519}, directory = "http://keys.example.com/"`,
    undefined,
    "http_signature.directory: must be an https URL",
  ],
  [
    `${ed25519}, directory = "https://user:word@keys.example.com/"`,
    undefined,
    "http_signature.directory: must be an https URL",
  ],
  [
    `algorithm = "hmac-sha256", directory = "${URL_OF_KEYS}"`,
    undefined,
    "http_signature.directory: must not be set with hmac-sha256",
  ],
  [ed25519, "a text", "secret[0]: must be a public key as PEM, a JWK or a JWK Set for ed25519"],
  [ed25519, pemOf("rsa", { modulusLength: 2048 }), "secret[0]: must be a public key"],
  ['algorithm = "rsa-pss-sha512"', pemOf("rsa", { modulusLength: 1024 }), "secret[0]: must be a public key"],
  ['algorithm = "rsa-pss-sha512"', pemOf("rsa-pss", RESTRICTED), "secret[0]: must be a public key"],
  [
    'algorithm = "hmac-sha256"',
    ED25519,
    "secret[0]: must be text, or a JWK or a JWK Set with keys of the type oct, for hmac-sha256",
  ],
  [`${ed25519}, components = ["@method"]`, ED25519, "http_signature.components: must contain content-digest"],
  [
    `${ed25519}, components = ["content-digest", "@status"]`,
    ED25519,
    "http_signature.components[1]: must be a header name in lower case, or one of @method",
  ],
  [
    `${ed25519}, components = ["content-digest", "X-Id"]`,
    ED25519,
    "http_signature.components[1]: must be a header name in lower case",
  ],
  ['algorithm = "none"', ED25519, "http_signature.algorithm: must be"],
])("the settings %s with the secret %j are refused at their key", (settings, secret, problem) => {
  expect(endpointProblems(endpoint(settings, secret))).toEqual(onlyProblem(problem));
});

test("at most 4 keys that are tried for each signature are accepted, and any number of shared secrets", () => {
  const listed = (settings: string, secrets: string[]) =>
    endpoint(settings, "x").replace('secret = "x"', `secret = ${JSON.stringify(secrets)}`);
  const keys = (count: number) => Array.from({ length: count }, () => pemOf("ed25519"));
  expect(endpointProblems(listed(ed25519, keys(4)))).toEqual([]);
  const problem = "secret: must have at most 4 keys in PEM, because each is tried: write them as a JWK Set";
  expect(endpointProblems(listed(ed25519, keys(5)))).toEqual(onlyProblem(problem));
  const texts = Array.from({ length: 5 }, (_, n) => `a secret of some length ${n}`);
  expect(endpointProblems(listed('algorithm = "hmac-sha256"', texts))).toEqual([]);
});

test("an endpoint without its public URL is refused, because signatures cover it", () => {
  const lines = endpoint(ed25519, ED25519).replace(/public_url.*\n/, "");
  expect(endpointProblems(lines)).toEqual(onlyProblem("public_url: is missing: this sender signs the URL"));
});

test("headers of the credential cannot be the delivery id, and a signed id must be stored while its signature is accepted", () => {
  const read = `${endpoint(ed25519, ED25519)}\ndelivery_id = "{header:Signature}"`;
  expect(endpointProblems(read)).toEqual(onlyProblem("delivery_id: must not read the credential's header"));
  const settings = `${ed25519}, past_secs = 100, components = ["content-digest", "x-id"]`;
  const short = `${endpoint(settings, ED25519)}\ndelivery_id = "{header:X-Id}"\nidempotency_window_secs = 60`;
  expect(endpointProblems(short)).toEqual(onlyProblem("idempotency_window_secs: must be at least 160"));
});
