import { createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { parseJson } from "../text/parse-json.ts";
import { decodeStrictly } from "../text/strict-base64.ts";
import { thumbprintOf } from "./thumbprint.ts";

/*
 * Compact JSON Web Signatures (RFC 7515) with Ed25519 (RFC 8037), and the JSON Web Keys that verify them. No other
 * algorithm is accepted, so a forged header cannot choose a weaker one. The header names the key by its thumbprint (RFC
 * 7638) in `kid`, so two keys never have the same `kid`.
 */

const ALG = "EdDSA";

/** Converts a public key to a member of a JSON Web Key Set. */
export function toJwk(publicKey: KeyObject) {
  return { ...publicKey.export({ format: "jwk" }), kid: thumbprintOf(publicKey), use: "sig", alg: ALG };
}

type SignJws = (typ: string, claims: object) => string;

/** Creates the function that signs claims as a JWT of type `typ` (RFC 8725, section 3.11). */
export function createSignJws(key: KeyObject): SignJws {
  const kid = thumbprintOf(createPublicKey(key));
  return (typ, claims) => {
    const signed = `${encode({ alg: ALG, typ, kid })}.${encode(claims)}`;
    return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
  };
}

/**
 * Verifies a JWS with these keys and returns its claims and type. Other members of its header are ignored, such as keys
 * and URLs of keys, which a forger could choose. Throws an error with the reason.
 */
export function verifyJws(jws: string, keys: readonly KeyObject[]): { typ: unknown; claims: unknown } {
  const [head = "", payload = "", signature = "", ...more] = jws.split(".");
  const header = decode(head);
  if (more.length > 0 || !isObject(header)) throw new Error("it is no compact JWS");
  const { alg, kid, typ } = header;
  if (alg !== ALG) throw new Error(`its algorithm is not ${ALG}`);
  if (header["crit"] !== undefined) throw new Error("its header has crit, which is not supported");
  const key = keys.find((each) => isEd25519(each) && thumbprintOf(each) === kid);
  if (key === undefined) throw new Error("none of the keys has its kid");
  const bytes = decodeStrictly(signature, "base64url");
  if (bytes === undefined || !verify(null, Buffer.from(`${head}.${payload}`), key, bytes))
    throw new Error("its signature is wrong");
  return { typ, claims: decode(payload) };
}

export function isEd25519({ asymmetricKeyType }: KeyObject): boolean {
  return asymmetricKeyType === "ed25519";
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decode(part: string): unknown {
  return parseJson(Buffer.from(part, "base64url").toString("utf8"));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
