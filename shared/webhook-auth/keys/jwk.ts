import { createPublicKey, createSecretKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { thumbprintOf } from "../../platform/crypto/thumbprint.ts";
import { parseJson } from "../../platform/text/parse-json.ts";
import { decodeStrictly } from "../../platform/text/strict-base64.ts";
import { toPrivateKey } from "../private-key.ts";
import {
  type AlgorithmName,
  fits,
  HTTP_ALGORITHMS,
  type HttpAlgorithm,
  hasKeyPair,
  TOKEN_ALGORITHMS,
} from "./algorithms.ts";

/*
 * Reads the keys of signed tokens and of HTTP Message Signatures. A key is given as a JWK or in a JWK Set (RFC 7517), as
 * PEM, or as a secret in plain text.
 */

/**
 * A key, and what its owner says about it in the JWK. A key with neither `kid` nor thumbprint is tried for every
 * signature.
 */
export type NamedKey = {
  readonly key: KeyObject;
  readonly kid?: string | undefined;
  /** Hash of a public key (RFC 7638). A signature can name the key by it, even if the set gives the key no id. */
  readonly thumbprint?: string | undefined;
  /** Only algorithm with which the key may be used. Undefined if it may be used with every algorithm that it fits. */
  readonly alg?: string | undefined;
};

const KEYS_MAX = 64;

/** Returns whether a configured key set is a URL. Otherwise it is the set itself. */
export function isKeySetUrl(text: string): boolean {
  return /^https?:/i.test(text);
}

/**
 * Returns the keys of a JWK Set that can verify signatures. Skips all others, as RFC 7517 (section 5) requires: keys
 * for encryption, shared or short keys, and unknown types. Throws an error with the reason if the text is not a set or
 * has no such key.
 */
export function parseKeySet(text: string): readonly NamedKey[] {
  const { keys } = tableOf(parseJson(text));
  if (!Array.isArray(keys)) throw new Error("the text is no JSON Web Key Set: an object with keys");
  if (keys.length > KEYS_MAX) throw new Error(`the set has more than ${KEYS_MAX} keys`);
  const usable = keys.flatMap(keyOfJwk).filter((each) => TOKEN_ALGORITHMS.some((name) => isFor(each, name)));
  if (usable.length === 0) throw new Error("the set has no key that can verify a signature");
  return usable;
}

/** Returns the keys in an endpoint's secret: PEM, a JWK or a JWK Set; for `hmac-sha256` also plain text. */
export function parseKeys(text: string, algorithm: HttpAlgorithm): NamedKey[] {
  const name = HTTP_ALGORITHMS[algorithm];
  return (isJson(text) ? keysOfJson(text) : plainKeys(text, name)).filter((each) => isFor(each, name));
}

/**
 * Parses a private key in the forms of `toPrivateKey`, with the `kid` and `alg` of its JWK. Undefined if the text is
 * not a key.
 */
export function parseSigningKey(text: string): NamedKey | undefined {
  const key = toPrivateKey(text);
  return key && withNames(key, isJson(text) ? tableOf(parseJson(text)) : {});
}

/** Returns whether a key may sign or verify with this algorithm. */
export function isFor({ key, alg }: NamedKey, name: AlgorithmName): boolean {
  const isNamed = alg === undefined || alg === name || (alg === "Ed25519" && name === "EdDSA");
  return isNamed && fits(key, name);
}

/** Returns whether this key may have made a signature with this `keyid`. */
export function isNamed({ kid, thumbprint }: NamedKey, keyid: string | undefined): boolean {
  if (kid === undefined && thumbprint === undefined) return true;
  return keyid !== undefined && (keyid === kid || keyid === thumbprint);
}

type Table = Readonly<Record<string, unknown>>;

function isJson(text: string): boolean {
  return text.trimStart().startsWith("{");
}

function tableOf(value: unknown): Table {
  return typeof value === "object" && value !== null ? (value as Table) : {};
}

function keysOfJson(text: string): NamedKey[] {
  const json = tableOf(parseJson(text));
  return (Array.isArray(json["keys"]) ? json["keys"] : [json]).flatMap(keyOfJwk);
}

/**
 * Returns the key in text that is not JSON. PEM is never used as a shared secret. It may be a public key that an
 * operator has configured by mistake, and anyone who knows a public key could sign with it.
 */
function plainKeys(text: string, name: AlgorithmName): NamedKey[] {
  if (!hasKeyPair(name))
    return text.includes("-----BEGIN") ? [] : [{ key: createSecretKey(Buffer.from(text, "utf8")) }];
  try {
    return [{ key: createPublicKey(text) }];
  } catch {
    return [];
  }
}

/** Returns the key of a JWK. A key that its owner has not assigned to signatures is skipped. */
function keyOfJwk(value: unknown): NamedKey[] {
  const jwk = tableOf(value);
  const { kty, alg, use, key_ops } = jwk;
  if (alg !== undefined && typeof alg !== "string") return [];
  if (use !== undefined && use !== "sig") return [];
  if (key_ops !== undefined && !(Array.isArray(key_ops) && key_ops.includes("verify"))) return [];
  try {
    const key = kty === "oct" ? secretOf(jwk) : createPublicKey({ key: jwk as JsonWebKey, format: "jwk" });
    return key === undefined ? [] : [withNames(key, jwk)];
  } catch {
    return [];
  }
}

function secretOf({ k }: Table): KeyObject | undefined {
  if (typeof k !== "string") return undefined;
  const bytes = decodeStrictly(k, "base64url");
  return bytes !== undefined && bytes.length > 0 ? createSecretKey(bytes) : undefined;
}

function withNames(key: KeyObject, { kid, alg }: Table): NamedKey {
  return { key, kid: textOf(kid), alg: textOf(alg), thumbprint: thumbprintIn(key) };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Returns the thumbprint of a key. Undefined for keys without a JWK form: shared keys, and keys only for RSA-PSS. */
function thumbprintIn(key: KeyObject): string | undefined {
  if (key.type === "secret" || key.asymmetricKeyType === "rsa-pss") return undefined;
  return thumbprintOf(key.type === "private" ? createPublicKey(key) : key);
}
