import { createHmac } from "node:crypto";
import { AppError } from "../errors/app-error.ts";
import { isSignedByAny } from "./hmac.ts";
import type { Secret } from "./secret.ts";

/*
 * HTTP Message Signatures (RFC 9421) between producers, runners and gateways. A request has one signature, labelled and
 * tagged `postern`, by the algorithm hmac-sha256. It covers @method, @path and headers. Only the form that signMessage
 * writes is accepted: one member each in Signature-Input and Signature, no component parameters, and no other derived
 * component.
 */
const LABEL = "postern";
const ALGORITHM = "hmac-sha256";

/** Time in seconds for which a signature is valid. */
export const SIGNATURE_AGE_SEC_MAX = 300;

/** Time in seconds by which the signer's clock may be ahead of the verifier's. */
const SKEW_SEC_MAX = 60;

/** Components that every signature must cover. */
const ALWAYS_COVERED: readonly string[] = ["@method", "@path", "content-digest"];

const COMPONENT = String.raw`"[a-z0-9!#$%&'*+.^_|~@\x60-]+"`;
const PARAMETER = String.raw`;[a-z*][a-z0-9_.*-]*=(?:\d{1,15}|"[^"\\]*")`;
const SIGNATURE_INPUT = new RegExp(`^${LABEL}=(\\((${COMPONENT}(?: ${COMPONENT})*)\\)((?:${PARAMETER})*))$`);
const SIGNATURE = new RegExp(`^${LABEL}=:([A-Za-z0-9+/]{43}=):$`);
const DIGEST_MEMBER = /^[a-z*][a-z0-9_.*-]*=:[A-Za-z0-9+/]*={0,2}:$/;
const PARAMETERS_KNOWN = ["created", "alg", "keyid", "nonce", "tag"];

export type SignedMessage = {
  readonly method: string;
  /** Path as sent, without a query. */
  readonly path: string;
  /** Headers to cover, by lower-case name, in signing order. */
  readonly headers: Readonly<Record<string, string>>;
};

/** A request as received: every value of each header, by lower-case name. */
export type ReceivedMessage = {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, readonly string[]>>;
};

type Rules = {
  nowSec: number;
  /** Headers that the request must have and the signature must cover. */
  needs?: readonly string[];
  /** Returns whether the signature must cover a header with this lower-case name if the request has it. */
  mustCover: (name: string) => boolean;
};

/** Returns the value of `Content-Digest` (RFC 9530) for bytes with this SHA-256. */
export function contentDigest(sha256Hex: string): string {
  return `sha-256=:${Buffer.from(sha256Hex, "hex").toString("base64")}:`;
}

/**
 * Returns whether a received `Content-Digest` (RFC 9530) has exactly one `sha-256` member, with this SHA-256. Members
 * with other algorithms are ignored.
 */
export function isContentDigestOf(values: readonly string[], sha256Hex: string): boolean {
  const members = values.flatMap((value) => value.split(",")).map((member) => member.trim());
  if (!members.every((member) => DIGEST_MEMBER.test(member))) return false;
  const digests = members.filter((member) => member.startsWith("sha-256="));
  return digests.length === 1 && digests[0] === contentDigest(sha256Hex);
}

/** Returns both signature headers of a message. The signature covers the method, the path and every given header. */
export function signMessage(secret: Secret, message: SignedMessage, createdSec: number) {
  let covered = `"@method" "@path"`;
  let lines = `"@method": ${message.method}\n"@path": ${message.path}\n`;
  for (const name of Object.keys(message.headers)) {
    covered += ` "${name}"`;
    lines += `"${name}": ${message.headers[name]}\n`;
  }
  const params = `(${covered});created=${createdSec};alg="${ALGORITHM}";tag="${LABEL}"`;
  // Header values are sent as latin1, so the signature base is encoded as latin1. The signature then covers exactly the
  // bytes that are sent, even if a value has characters outside ASCII.
  const mac = createHmac("sha256", secret.reveal())
    .update(signatureBase(lines, params), "latin1")
    .digest("base64");
  return { "Signature-Input": `${LABEL}=${params}`, Signature: `${LABEL}=:${mac}:` };
}

/** Returns the signature base (RFC 9421, section 2.5): a line `"name": value\n` per component, then the parameters. */
export function signatureBase(lines: string, params: string): string {
  return `${lines}"@signature-params": ${params}`;
}

/**
 * Verifies that one of the secrets signed this message recently, and that the signature covers all required components.
 * Throws `runner.signature_rejected` with the reason. The signature covers the body only through the header
 * `content-digest`. The caller must compare that digest with the body.
 */
export function verifyMessage(secrets: readonly Secret[], request: ReceivedMessage, rules: Rules): void {
  const { params, covered, created } = parseInput(only(request, "signature-input"));
  checkAge(created, rules);
  checkCoverage(new Set(covered), request, rules);
  const lines = covered.map((name) => `"${name}": ${componentValue(request, name)}\n`).join("");
  const base = Buffer.from(signatureBase(lines, params), "latin1");
  if (!isSignedByAny(secrets, parseSignature(only(request, "signature")), base)) {
    throw rejected(
      "the signature does not match: it was made with a secret that is not configured here, or over another message",
    );
  }
}

function parseInput(text: string): { params: string; covered: string[]; created: number } {
  const [, params, names, parameters] = SIGNATURE_INPUT.exec(text) ?? [];
  if (params === undefined || names === undefined) throw rejected("Signature-Input is malformed");
  const covered = names.split(" ").map((name) => name.slice(1, -1));
  if (new Set(covered).size !== covered.length) throw rejected("the signature covers a component twice");
  const values = parseParameters(parameters ?? "");
  if ((values.get("alg") ?? ALGORITHM) !== ALGORITHM) throw rejected(`alg must be ${ALGORITHM}`);
  if (values.get("tag") !== LABEL) throw rejected(`tag must be ${LABEL}`);
  const created = values.get("created");
  if (typeof created !== "number") throw rejected("created is missing");
  return { params, covered, created };
}

function parseParameters(text: string): Map<string, string | number> {
  const values = new Map<string, string | number>();
  for (const [parameter] of text.matchAll(new RegExp(PARAMETER, "g"))) {
    const name = parameter.slice(1, parameter.indexOf("="));
    const value = parameter.slice(parameter.indexOf("=") + 1);
    if (!PARAMETERS_KNOWN.includes(name)) throw rejected(`parameter ${name} is unknown`);
    if (values.has(name)) throw rejected(`parameter ${name} was sent more than once`);
    values.set(name, value.startsWith('"') ? value.slice(1, -1) : Number(value));
  }
  return values;
}

function parseSignature(text: string): Buffer {
  const base64 = SIGNATURE.exec(text)?.[1];
  if (base64 === undefined) throw rejected("Signature is malformed");
  return Buffer.from(base64, "base64");
}

function checkAge(created: number, { nowSec }: Rules): void {
  const ageSec = nowSec - created;
  if (ageSec > SIGNATURE_AGE_SEC_MAX)
    throw rejected(`created is ${ageSec} s old, and the limit is ${SIGNATURE_AGE_SEC_MAX} s`);
  if (-ageSec > SKEW_SEC_MAX) throw rejected(`created is ${-ageSec} s in the future`);
}

function checkCoverage(
  covered: ReadonlySet<string>,
  { headers }: ReceivedMessage,
  { needs = [], mustCover }: Rules,
): void {
  for (const name of [...ALWAYS_COVERED, ...needs]) {
    if (!covered.has(name)) throw rejected(`the signature does not cover ${name}`);
  }
  for (const name of Object.keys(headers)) {
    if ((name === "content-type" || mustCover(name)) && !covered.has(name))
      throw rejected(`the signature does not cover ${name}`);
  }
}

function componentValue(request: ReceivedMessage, name: string): string {
  if (name === "@method") return request.method;
  if (name === "@path") return request.path;
  if (name.includes("@")) throw rejected(`component ${name} is unknown`);
  return only(request, name).trim();
}

function only({ headers }: ReceivedMessage, name: string): string {
  const values = Object.hasOwn(headers, name) ? (headers[name] ?? []) : [];
  const [value] = values;
  if (value === undefined) throw rejected(`${name} is missing`);
  if (values.length > 1) throw rejected(`${name} was sent more than once`);
  return value;
}

function rejected(reason: string): AppError {
  return new AppError("runner.signature_rejected", { reason });
}
