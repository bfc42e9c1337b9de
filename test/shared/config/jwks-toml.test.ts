import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { loadConfig } from "../../../shared/config/config-dir.ts";
import { configHash, fingerprintOf } from "../../../shared/config/fingerprint.ts";
import { readWebhooks } from "../../../shared/config/read-webhooks.ts";
import { dirWith, endpointProblems, onlyProblem } from "./files.ts";

const jwk = (bits = 2048) =>
  generateKeyPairSync("rsa", { modulusLength: bits }).publicKey.export({ format: "jwk" });
/** A key of a usual size. It takes long to generate, so all tests use one. */
const JWK = jwk();
const setOf = (...keys: object[]) => JSON.stringify({ keys });

const jwt = (jwks: string, more = "") =>
  `job_id = 1\nauth = "jwt"\nissuer = "https://a.example"\naudience = "b"\njwks = '${jwks}'\n${more}`;
const google = (more: string) => `job_id = 1\npreset = "google-pubsub"\naudience = "b"\n${more}`;
const byHand = (issuer: string, more = "") =>
  jwt(URL_OF_KEYS, more).replace(
    'issuer = "https://a.example"',
    `issuer = ["https://a.example", "${issuer}"]`,
  );
const URL_OF_KEYS = "https://a.example/keys";

test.each([
  [jwt("http://a.example/keys"), "jwks: must be an https URL without user, password and fragment"],
  [jwt("https://user:word@a.example/keys"), "jwks: must be an https URL without user, password and fragment"],
  [
    jwt("a.example/keys"),
    "jwks: must be the URL of a JSON Web Key Set, or file:/path of one: the text is no",
  ],
  [jwt("file:/nowhere/keys.json"), "jwks: names a file that"],
  [jwt(setOf()), "jwks: must be the URL of a JSON Web Key Set, or file:/path of one: the set has no key"],
  [
    jwt(setOf(jwk(1024))),
    "jwks: must be the URL of a JSON Web Key Set, or file:/path of one: the set has no",
  ],
  [jwt(setOf({ ...JWK, use: "enc" })), "jwks: must be the URL of a JSON Web Key Set, or file:/path of"],
  [jwt(URL_OF_KEYS, 'algorithms = ["HS256"]'), 'algorithms[0]: must be "RS256", '],
  [jwt(URL_OF_KEYS, 'algorithms = ["none"]'), 'algorithms[0]: must be "RS256", '],
  [jwt(URL_OF_KEYS, "algorithms = []"), "algorithms: is empty"],
  [jwt(URL_OF_KEYS, 'claims = { aud = "c" }'), "claims.aud: is checked anyway: set issuer and audience"],
  [jwt(URL_OF_KEYS, 'secret = "0123456789abcdef"'), 'secret: is not used with auth = "jwt"'],
  [jwt(URL_OF_KEYS, 'delivery_id = "{header:Authorization}"'), "delivery_id: must not read the credential"],
  [google(""), "claims: must have sub or email: anyone can have a token of this issuer"],
  [
    google('claims = { azp = "c" }'),
    "claims: must have sub or email: anyone can have a token of this issuer",
  ],
  [byHand("accounts.google.com"), "claims: must have sub or email: anyone can have a token of this issuer"],
  [
    byHand("accounts.google.com", 'claims = { email = "c" }'),
    "claims.email_verified: must be true: otherwise, the issuer may not have verified the address",
  ],
  [
    byHand("https://token.actions.githubusercontent.com", 'claims = { workflow = "c" }'),
    "claims: must have sub or repository or repository_id or",
  ],
  [google('claims = { email = "c", email_verified = false }'), "claims.email_verified: must be true"],
  [google('claims = { email = "c", email_verified = "true" }'), "claims.email_verified: must be true"],
  ['job_id = 1\npreset = "google-pubsub"\nclaims = { email = "c" }', "audience: is missing"],
])("the mistake in %j is refused at its key", (lines, problem) => {
  expect(endpointProblems(lines)).toEqual(onlyProblem(problem));
});

test.each([
  byHand("https://accounts.google.com", 'claims = { sub = "1" }'),
  byHand("https://accounts.google.com", 'claims = { email = "c", email_verified = true }'),
  byHand("https://token.actions.githubusercontent.com", 'claims = { repository_id = "1" }'),
  byHand("https://constructor.example"),
])("claims that name the sender are sufficient in %j", (lines) => {
  expect(endpointProblems(lines)).toEqual([]);
});

test("keys come from a URL, a variable or a file relative to the configuration directory, a reload reads them again, and they are never shown", () => {
  const toml = (jwks: string) => ({ "webhooks.toml": `[[endpoints]]\npath = "/a"\n${jwt(jwks)}\n` });
  const [first, second] = ["1", "2"].map((kid) => setOf({ ...JWK, kid })) as [string, string];
  const load = (dir: string, env = {}) => loadConfig(readWebhooks, { dir, env }).webhooks;
  const jwksOf = (webhooks: ReturnType<typeof load>) => {
    const proof = webhooks?.endpoints[0]?.proof;
    return proof?.by === "jwt" ? proof.jwks.reveal() : undefined;
  };

  const [plain, other] = ["hidden", "other"].map((token) =>
    load(dirWith(toml(`${URL_OF_KEYS}?token=${token}`))),
  );
  expect(jwksOf(plain)).toBe(`${URL_OF_KEYS}?token=hidden`);
  expect(JSON.stringify(plain) + inspect(plain, { depth: null })).not.toContain("hidden");
  // The hash is reported, so it must not depend on a secret that could be guessed.
  expect(configHash(plain)).toBe(configHash(other));
  expect(jwksOf(load(dirWith(toml("env:KEYS")), { KEYS: first }))).toBe(first);
  const dir = dirWith({ ...toml("file:keys.json"), "keys.json": first });
  const before = load(dir);
  expect(jwksOf(before)).toBe(first);
  writeFileSync(join(dir, "keys.json"), second);
  const after = load(dir);
  expect(jwksOf(after)).toBe(second);
  expect(fingerprintOf(after)).not.toBe(fingerprintOf(before));
});

test("the preset of Google accepts both spellings of its issuer, and requires a verified address", () => {
  const webhooks = `[[endpoints]]\npath = "/a"\n${google('claims = { email = "c", azp = "1" }')}\n`;
  const found = loadConfig(readWebhooks, { dir: dirWith({ "webhooks.toml": webhooks }), env: {} });
  expect(found.webhooks?.endpoints[0]?.proof).toMatchObject({
    issuers: ["https://accounts.google.com", "accounts.google.com"],
    claims: { email: "c", email_verified: true, azp: "1" },
  });
});
