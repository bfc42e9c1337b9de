import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { expect, test } from "vitest";
import { createSignJws, toJwk, verifyJws } from "../../../../shared/platform/crypto/jws.ts";

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const stranger = generateKeyPairSync("ed25519");
const { kid } = toJwk(publicKey);
const CLAIMS = { amount: "1", call_id: "c_1" };
const jws = createSignJws(privateKey)("t+jwt", CLAIMS);

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Returns a JWS with this header, signed by `by`. */
function forged(header: object, by: (signed: Buffer) => Buffer): string {
  const signed = `${encode(header)}.${encode(CLAIMS)}`;
  return `${signed}.${by(Buffer.from(signed)).toString("base64url")}`;
}

const byKey = (key: KeyObject) => (signed: Buffer) => sign(null, signed, key);

test("a JWS is verified by the key that signed it, even among other keys", () => {
  expect(verifyJws(jws, [stranger.publicKey, publicKey])).toEqual({ typ: "t+jwt", claims: CLAIMS });
});

test("a JWS with any part changed is refused", () => {
  const [head = "", , signature = ""] = jws.split(".");
  const other = createSignJws(privateKey)("t+jwt", { ...CLAIMS, call_id: "c_2" });
  const [, otherClaims = "", otherSignature = ""] = other.split(".");
  const [, claims = ""] = jws.split(".");
  const last = signature.at(-1) === "A" ? "B" : "A";
  for (const wrong of [
    `${head}.${otherClaims}.${signature}`,
    `${head}.${claims}.${otherSignature}`,
    `${encode({ alg: "EdDSA", typ: "u+jwt", kid })}.${claims}.${signature}`,
    `${head}.${claims}.${signature.slice(0, -1)}${last}`,
    `${head}.${claims}.${signature}=`,
    `${head}.${claims}.`,
  ])
    expect(() => verifyJws(wrong, [publicKey]), wrong).toThrow("its signature is wrong");
  for (const wrong of [`${jws}.`, `${head}.${claims}.${signature}.${claims}`, "", "a.b.c"])
    expect(() => verifyJws(wrong, [publicKey]), wrong).toThrow(/it is no compact JWS|signature is wrong/);
});

test("a key in the header of a JWS is not used", () => {
  const jwk = stranger.publicKey.export({ format: "jwk" });
  const brought = { alg: "EdDSA", typ: "t+jwt", jwk, jku: "http://127.0.0.1:1/", x5c: ["MA=="] };
  const bySelf = byKey(stranger.privateKey);
  expect(() =>
    verifyJws(forged({ ...brought, kid: toJwk(stranger.publicKey).kid }, bySelf), [publicKey]),
  ).toThrow("none of the keys has its kid");
  expect(() => verifyJws(forged({ ...brought, kid }, bySelf), [publicKey])).toThrow("its signature is wrong");
  expect(() => verifyJws(forged(brought, bySelf), [publicKey])).toThrow("none of the keys has its kid");
});

test.each(["none", "HS256", "ES256", "Ed25519", undefined])("no other algorithm is taken: %s", (alg) => {
  const secret = createPublicKey(privateKey).export({ format: "pem", type: "spki" });
  const header = { alg, typ: "t+jwt", kid };
  for (const by of [
    () => Buffer.alloc(0),
    (signed: Buffer) => createHmac("sha256", secret).update(signed).digest(),
    byKey(privateKey),
  ])
    expect(() => verifyJws(forged(header, by), [publicKey])).toThrow("its algorithm is not EdDSA");
});

test("a JWS with an extension that a verifier must understand is refused", () => {
  const header = { alg: "EdDSA", typ: "t+jwt", kid, crit: ["b64"], b64: false };
  expect(() => verifyJws(forged(header, byKey(privateKey)), [publicKey])).toThrow("crit");
});
