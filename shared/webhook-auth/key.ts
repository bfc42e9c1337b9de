import { createPublicKey, createSecretKey, KeyObject } from "node:crypto";
import type { Secret } from "../platform/crypto/secret.ts";
import type { Scheme, SecretFormat } from "./signature-scheme.ts";

/**
 * Returns the keys of each scheme: shared secrets or public keys. Each secret is read in the first of the schemes'
 * formats that it fits. A shared secret becomes a key object as well, although bytes would do. With bytes, Node 24
 * internally throws and catches two errors for each MAC, so that it takes 5 to 20 times as long.
 */
export function keysFor(schemes: readonly Scheme[], secrets: readonly Secret[]): KeyObject[][] {
  const used = secrets.map((secret) => ({ secret, format: formatOf(secret, schemes) }));
  return schemes.map(({ secret_format = "text" }) =>
    used
      .filter(({ format }) => format === secret_format)
      .flatMap(({ secret }) => toKey(PARSERS[secret_format](secret.reveal())) ?? []),
  );
}

function toKey(parsed: Buffer | KeyObject | undefined): KeyObject | undefined {
  return parsed === undefined || parsed instanceof KeyObject ? parsed : createSecretKey(parsed);
}

/** Returns the expected form of a secret that no scheme can use; undefined if a scheme can use it. */
export function secretProblem(secret: Secret, schemes: readonly Scheme[]): string | undefined {
  if (formatOf(secret, schemes) !== undefined) return undefined;
  const formats = new Set(schemes.map(({ secret_format }) => EXPECTED[secret_format ?? "text"]));
  return `must be ${[...formats].join(", or ")}`;
}

function formatOf(secret: Secret, schemes: readonly Scheme[]): SecretFormat | undefined {
  const formats = schemes.map(({ secret_format = "text" }) => secret_format);
  return formats.find((format) => PARSERS[format](secret.reveal()) !== undefined);
}

/**
 * Beginning of a secret in the notation of Standard Webhooks. Some senders, such as Supabase, put the signature's
 * version before it.
 */
const WHSEC = /^(?:v1,)?whsec_/;
const WHPK = /^(?:v1a,)?whpk_/;

const PARSERS: Readonly<Record<SecretFormat, (text: string) => Buffer | KeyObject | undefined>> = {
  text: (text) => Buffer.from(text, "utf8"),
  hex: (text) => decodeHex(text),
  base64: decodeBase64,
  whsec: (text) => after(WHSEC, text),
  "base64-or-whsec": (text) => after(WHSEC, text) ?? decodeBase64(text),
  "text-or-whsec": (text) => (WHSEC.test(text) ? after(WHSEC, text) : Buffer.from(text, "utf8")),
  "ed25519-hex": (text) => ed25519(decodeHex(text)),
  "ed25519-whpk": (text) => ed25519(after(WHPK, text)),
  spki,
};

const EXPECTED: Readonly<Record<SecretFormat, string>> = {
  text: "text",
  hex: "hex digits",
  base64: "base64",
  whsec: "whsec_ or v1,whsec_ and base64",
  "base64-or-whsec": "base64, with or without whsec_ or v1,whsec_ before it",
  "text-or-whsec": "text, or whsec_ or v1,whsec_ and base64",
  "ed25519-hex": "an Ed25519 public key of 64 hex digits",
  "ed25519-whpk": "whpk_ or v1a,whpk_ and the base64 of an Ed25519 public key",
  spki: "a P-256 public key, as the base64 of its SubjectPublicKeyInfo or as PEM",
};

/** Returns the decoded base64 after a prefix. */
function after(prefix: RegExp, text: string): Buffer | undefined {
  return prefix.test(text) ? decodeBase64(text.replace(prefix, "")) : undefined;
}

function decodeHex(text: string): Buffer | undefined {
  return /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, "hex") : undefined;
}

/** Decodes base64. Padding may be missing, because some senders show keys without it. */
function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  const same = bytes.toString("base64").replace(/=+$/, "") === text.replace(/=+$/, "");
  return same && bytes.length > 0 ? bytes : undefined;
}

/** Fixed beginning of a SubjectPublicKeyInfo of Ed25519 (RFC 8410, section 4). */
const ED25519_SPKI = Buffer.from("302a300506032b6570032100", "hex");

function ed25519(bytes: Buffer | undefined): KeyObject | undefined {
  if (bytes?.length !== 32) return undefined;
  return createPublicKey({ key: Buffer.concat([ED25519_SPKI, bytes]), format: "der", type: "spki" });
}

function spki(text: string): KeyObject | undefined {
  try {
    const der = text.startsWith("-----") ? undefined : decodeBase64(text);
    const key = createPublicKey(der === undefined ? text : { key: der, format: "der", type: "spki" });
    return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? key : undefined;
  } catch {
    return undefined;
  }
}
