import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { contentCoding } from "../../shared/http/content-coding.ts";
import { sameBytes } from "../../shared/platform/crypto/compare.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { HttpSigned } from "../../shared/webhook-auth/auth-modes.ts";
import { type HttpSignature, uncovered } from "../../shared/webhook-auth/http-signature/settings.ts";
import { type Component, SignedRequest } from "../../shared/webhook-auth/http-signature/signed-request.ts";
import {
  type BareItem,
  type Member,
  type Parameters,
  parseDictionary,
  serializeItem,
} from "../../shared/webhook-auth/http-signature/structured-fields.ts";
import { HTTP_ALGORITHMS, verify } from "../../shared/webhook-auth/keys/algorithms.ts";
import { isFor, isNamed, type NamedKey, parseKeySet, parseKeys } from "../../shared/webhook-auth/keys/jwk.ts";
import { needHeader, rejected, wellFormed } from "../../shared/webhook-auth/rejected.ts";
import { some } from "../../shared/webhook-auth/verifier.ts";
import type { Check, CheckDeps } from "./check.ts";
import { mostUseful, outcomeOf, type SignatureProof } from "./signature-check.ts";
import { checkTime } from "./signature-timestamp.ts";

/** Limit on signatures of a request. The sender and each proxy between it and the gateway may add one. */
const SIGNATURES_MAX = 4;
/** Limit on covered components of a signature. Senders cover about a dozen. */
const COMPONENTS_MAX = 64;
/**
 * Limit on keys to try for one key id. Without it, a key directory with many keys of the same id would cause many
 * verifications.
 */
const KEYS_OF_ID_MAX = 2;

type Endpoint = Pick<EndpointToml, "path" | "public_url" | "secret" | "encoded_bodies">;

/** A signature that can be verified once its key is known. */
type Candidate = { readonly base: Buffer; readonly signature: Buffer; readonly keyid: string | undefined };
type Attempt = Candidate & { readonly key: NamedKey };

/**
 * Checks HTTP Message Signatures (RFC 9421). The signature covers the header `Content-Digest` (RFC 9530), and is
 * verified before the body is read. The digest then verifies the body. A request may have several signatures. One valid
 * signature with the endpoint's tag and all required components suffices. A key directory is a URL at which the sender
 * publishes its keys. It is queried only for a signature that meets all other requirements. Throws
 * `webhook.credential_rejected` and `webhook.keys_unavailable`.
 */
export function createHttpSignatureCheck(
  { signature: settings }: Pick<HttpSigned, "signature">,
  endpoint: Endpoint,
  deps: CheckDeps,
): Check {
  const { algorithm, tag } = settings;
  const name = HTTP_ALGORITHMS[algorithm];
  const attemptsFor = createFindKeys(settings, endpoint, deps);

  function readCandidates(req: IncomingMessage): Candidate[] {
    const inputs = dictionaryOf(req, "signature-input");
    const signatures = dictionaryOf(req, "signature");
    if (inputs.size > SIGNATURES_MAX)
      throw rejected("malformed", `signature-input must have at most ${SIGNATURES_MAX} signatures`);
    const request = new SignedRequest(req, endpoint.public_url ?? "");
    const isDecoded = endpoint.encoded_bodies === "decode" && contentCoding(req) !== undefined;
    const fitting = [...inputs].filter(
      ([, { parameters }]) => tag === undefined || parameters.get("tag") === tag,
    );
    const read = fitting.map(([label, input]) =>
      outcomeOf(() => readCandidate(request, isDecoded, input, signatures.get(label))),
    );
    const candidates = read.flatMap((outcome) => (outcome instanceof AppError ? [] : [outcome]));
    if (fitting.length === 0) throw rejected("mismatch", `no signature has the tag ${tag}`);
    if (candidates.length === 0) throw mostUseful(read.filter((outcome) => outcome instanceof AppError));
    return candidates;
  }

  function readCandidate(
    request: SignedRequest,
    isDecoded: boolean,
    input: Member,
    sent: Member | undefined,
  ): Candidate {
    const { parameters } = input;
    checkParameters(parameters, settings, deps.clock());
    const components = componentsOf(input);
    const covered = new Set(components.map(serializeItem));
    if (covered.size < components.length) throw rejected("repeated", "a component of the signature");
    const names = new Set(components.filter((each) => each.parameters.size === 0).map(({ value }) => value));
    const lack = uncovered(settings, names, { hasQuery: request.hasQuery, isDecoded });
    if (lack !== undefined) throw rejected("mismatch", `the signature does not cover ${lack}`);
    const signature = wellFormed(
      Buffer.isBuffer(sent?.value) ? sent.value : undefined,
      () => "signature must have the bytes of each signature in signature-input",
    );
    return { base: request.base(components, parameters), signature, keyid: textOf(parameters, "keyid") };
  }

  return async (req: IncomingMessage, address: string): Promise<SignatureProof> => {
    const digests = readDigests(req);
    const candidates = readCandidates(req);
    let hasKey = false;
    for await (const attempts of attemptsFor(candidates, address)) {
      if (some(attempts, ({ key: { key }, base, signature }) => verify(name, key, base, signature)))
        return digestProof(digests);
      hasKey ||= attempts.length > 0;
    }
    throw hasKey ? rejected("mismatch") : rejected("mismatch", "no key has the keyid of the signature");
  };
}

/**
 * Creates the function that yields the keys that the signatures name by `keyid`. If the keys come from a key directory,
 * the function yields the cached keys first. If none of them verifies a signature, it yields newly fetched ones.
 */
function createFindKeys(
  { algorithm, directory }: HttpSignature,
  { path, secret: secrets }: Endpoint,
  { documents }: CheckDeps,
) {
  const select = (keys: readonly NamedKey[], candidates: readonly Candidate[], most?: number): Attempt[] =>
    candidates.flatMap((each) => {
      const named = keys.filter((key) => isNamed(key, each.keyid));
      return named.slice(0, most).map((key) => ({ ...each, key }));
    });
  if (directory === undefined) {
    const keys = secrets.flatMap((secret) => parseKeys(secret.reveal(), algorithm));
    return (candidates: readonly Candidate[]) => [select(keys, candidates)];
  }
  const directories = documents.open(path, parseKeySet);
  return async function* (candidates: readonly Candidate[], address: string): AsyncGenerator<Attempt[]> {
    const named = candidates.filter(({ keyid }) => keyid !== undefined);
    if (named.length === 0) throw rejected("malformed", "the signature must have keyid");
    for await (const keys of directories.versions(directory, address)) {
      const ofAlgorithm = keys.filter((key) => isFor(key, HTTP_ALGORITHMS[algorithm]));
      yield select(ofAlgorithm, named, KEYS_OF_ID_MAX);
    }
  };
}

function dictionaryOf(req: IncomingMessage, name: string): ReadonlyMap<string, Member> {
  return parseDictionary(needHeader(req, name), name);
}

function componentsOf({ value: items }: Member): Component[] {
  const isList = Array.isArray(items) && items.every(({ value }) => typeof value === "string");
  if (!isList || items.length > COMPONENTS_MAX)
    throw rejected("malformed", `signature-input must list at most ${COMPONENTS_MAX} components in quotes`);
  return items as Component[];
}

type Kind = "string" | "number";

/**
 * Known parameters of a signature (RFC 9421, section 2.3). A signature with an unknown parameter is refused, because
 * the parameter may restrict where the signature is valid.
 */
const PARAMETERS: Readonly<Record<string, Kind>> = {
  created: "number",
  expires: "number",
  nonce: "string",
  alg: "string",
  keyid: "string",
  tag: "string",
};

function checkParameters(
  parameters: Parameters,
  { algorithm, past_secs, future_secs }: HttpSignature,
  now: number,
) {
  for (const [name, value] of parameters) checkParameter(name, value);
  const alg = textOf(parameters, "alg");
  if (alg !== undefined && alg !== algorithm) throw rejected("mismatch", `alg must be ${algorithm}`);
  const created = wellFormed(parameters.get("created"), () => "the signature must have created");
  checkTime(String(created), { unit: "s", past_secs, future_secs }, now);
  const expires = parameters.get("expires");
  if (expires !== undefined && Number(expires) * 1000 <= now)
    throw rejected("stale", "the signature has expired by this gateway's clock");
}

function checkParameter(name: string, value: BareItem): void {
  const kind = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
  if (kind === undefined)
    throw rejected(
      "malformed",
      `the parameters of a signature must be among ${Object.keys(PARAMETERS).join(", ")}`,
    );
  if (typeof value !== kind)
    throw rejected("malformed", `${name} must be ${kind === "number" ? "an integer" : "text in quotes"}`);
}

function textOf(parameters: Parameters, name: string): string | undefined {
  const value = parameters.get(name);
  return typeof value === "string" ? value : undefined;
}

type Digest = { readonly hash: string; readonly bytes: Buffer };

/** Accepted digests, with their names in RFC 9530. */
const HASHES: readonly { readonly name: string; readonly hash: string; readonly size: number }[] = [
  { name: "sha-256", hash: "sha256", size: 32 },
  { name: "sha-512", hash: "sha512", size: 64 },
];

/**
 * Reads the digests of Content-Digest by SHA-256 and SHA-512; at least one must be present. Digests by other algorithms
 * are ignored.
 */
function readDigests(req: IncomingMessage): Digest[] {
  const members = dictionaryOf(req, "content-digest");
  const digests = HASHES.flatMap(({ name, hash, size }) => {
    const value = members.get(name)?.value;
    if (value === undefined) return [];
    if (!Buffer.isBuffer(value) || value.length !== size)
      throw rejected("malformed", `${name} in content-digest must be ${size} bytes`);
    return [{ hash, bytes: value }];
  });
  if (digests.length === 0) throw rejected("malformed", "content-digest must have sha-256 or sha-512");
  return digests;
}

/**
 * Creates the check of the body. It hashes the body while it arrives, and then compares the hashes with the signed
 * digests.
 */
function digestProof(digests: readonly Digest[]): SignatureProof {
  const running = digests.map(({ hash, bytes }) => ({ hash: createHash(hash), bytes }));
  let taken = 0;
  const take = (chunk: Buffer): void => {
    taken += chunk.length;
    for (const { hash } of running) hash.update(chunk);
  };
  const end = (): void => {
    if (!running.every(({ hash, bytes }) => sameBytes(hash.digest(), bytes)))
      throw rejected("mismatch", "the digest of the body differs from content-digest");
  };
  return {
    take,
    checkTaken: end,
    check({ body }) {
      if (taken === 0) take(body);
      end();
    },
  };
}
