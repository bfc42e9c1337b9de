import type { KeyObject } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { JWTPayload, JWTVerifyOptions } from "jose";
import { bearerToken, type Jwt } from "../../shared/webhook-auth/auth-modes.ts";
import type { AlgorithmName } from "../../shared/webhook-auth/keys/algorithms.ts";
import { isFor, isKeySetUrl, type NamedKey, parseKeySet } from "../../shared/webhook-auth/keys/jwk.ts";
import { needHeader, rejected } from "../../shared/webhook-auth/rejected.ts";
import type { Check, CheckDeps } from "./check.ts";

const TOKEN_CHARS_MAX = 16 * 1024;
/** Accepted difference between the issuer's clock and the gateway's. */
const SKEW_SECS = 60;

/**
 * Header of a token whose signature is not verified yet. Its `alg` is one of the algorithms that the endpoint accepts.
 */
type Header = { readonly alg: AlgorithmName; readonly kid: string | undefined };

/**
 * Checks the signed token (JWT) of a request (RFC 7519, RFC 8725). Throws `webhook.credential_rejected` and
 * `webhook.keys_unavailable`. A token can name one of the configured keys by its `kid`. Its headers `jku`, `x5u` and
 * `jwk` are ignored, because with them a stranger could name a key of their own.
 */
export function createJwtCheck(proof: Jwt, endpoint: { readonly path: string }, deps: CheckDeps): Check {
  const { issuers, audience, algorithms, claims } = proof;
  const jwks = proof.jwks.reveal();
  const isFetched = isKeySetUrl(jwks);
  const versionsFor = isFetched ? fetchedSets(jwks, endpoint, deps) : onlySet(parseKeySet(jwks));
  const expected: JWTVerifyOptions = {
    issuer: [...issuers],
    audience,
    algorithms: [...algorithms],
    requiredClaims: ["exp"],
    clockTolerance: SKEW_SECS,
  };
  return async (req, address) => {
    const token = tokenOf(req);
    const { jwtVerify } = await import("jose");
    const now = deps.clock();
    const versions = versionsFor(address);
    let mismatch: unknown;
    const keyOf = async ({ alg, kid }: { alg?: string; kid?: unknown }) => {
      const header = { alg: alg as AlgorithmName, kid: kidOf(kid) };
      // A `kid` that is not in the cached key set shows that the issuer has a new key. A token without a kid cannot
      // show this. If the issuer signed it with a new key, it would look like a token with a wrong signature.
      if (isFetched && header.kid === undefined) throw rejected("malformed", "the token must have a kid");
      for (let next = await versions.next(); !next.done; next = await versions.next()) {
        const keys = keysFor(next.value, header);
        if (keys.length > 0) return onlyKey(keys);
      }
      throw mismatch ?? rejected("mismatch", "no key of the key set has the kid and alg of the token");
    };
    // If the signature does not match the key, the issuer may have replaced the key under the same kid. So the loop
    // runs again, and `keyOf` then continues with the next, newer key set.
    for (;;) {
      try {
        const { payload } = await jwtVerify(token, keyOf, { ...expected, currentDate: new Date(now) });
        return checkClaims(payload, claims, now / 1000);
      } catch (error) {
        if (!isMismatch(error) || error === mismatch) throw refusalOf(error);
        mismatch = error;
      }
    }
  };
}

type SetsFor = (address: string) => AsyncIterator<readonly NamedKey[]>;

/**
 * Creates the function that yields the issuer's key sets from a URL. The cached set comes first. If the caller asks for
 * more, newly fetched ones follow.
 */
function fetchedSets(url: string, { path }: { readonly path: string }, { documents }: CheckDeps): SetsFor {
  const sets = documents.open(path, parseKeySet);
  return (address) => sets.versions(url, address);
}

function onlySet(set: readonly NamedKey[]): SetsFor {
  return async function* () {
    yield set;
  };
}

/** Returns the keys that may have signed a token with this header. */
function keysFor(set: readonly NamedKey[], { alg, kid }: Header): readonly NamedKey[] {
  return set.filter((each) => (kid === undefined || each.kid === kid) && isFor(each, alg));
}

function tokenOf(req: IncomingMessage): string {
  const token = bearerToken(needHeader(req, "authorization"));
  if (token.length > TOKEN_CHARS_MAX)
    throw rejected("malformed", `the token must have at most ${TOKEN_CHARS_MAX} characters`);
  return token;
}

function kidOf(kid: unknown): string | undefined {
  if (kid === undefined || typeof kid === "string") return kid;
  throw rejected("malformed", "the kid of the token must be text");
}

/**
 * Returns the only key that may have signed the token. If there are several, the token is refused, because the choice
 * would depend on their order in the key set.
 */
function onlyKey([first, ...more]: readonly NamedKey[]): KeyObject {
  if (more.length > 0) throw rejected("mismatch", "several keys of the key set fit the token");
  return (first as NamedKey).key;
}

function isMismatch(error: unknown): boolean {
  return (error as { code?: string }).code === "ERR_JWS_SIGNATURE_VERIFICATION_FAILED";
}

/** Translates an error of the library into a refusal. The reason contains no part of the token. */
function refusalOf(error: unknown): unknown {
  const { code = "", claim, reason } = error as { code?: string; claim?: string; reason?: string };
  if (!/^ERR_J(?:WS|WT|OSE)_/.test(code)) return error;
  switch (code) {
    case "ERR_JWT_EXPIRED":
      return rejected("stale", `the claim exp is more than ${SKEW_SECS} s ago`);
    case "ERR_JWT_CLAIM_VALIDATION_FAILED":
      return refusalOfClaim(claim ?? "", reason ?? "");
    case "ERR_JOSE_ALG_NOT_ALLOWED":
      return rejected("mismatch", "the alg of the token is not in algorithms");
    case "ERR_JWS_SIGNATURE_VERIFICATION_FAILED":
      return rejected("mismatch");
    case "ERR_JOSE_NOT_SUPPORTED":
      return rejected("malformed", "the token must not have critical extensions (crit)");
    default:
      return rejected("malformed", "the token must be a signed JWT in compact form (RFC 7519)");
  }
}

function refusalOfClaim(claim: string, reason: string): Error {
  if (reason === "missing") return rejected("malformed", `the token must have the claim ${claim}`);
  if (reason === "invalid") return rejected("malformed", `the claim ${claim} must be a number`);
  if (claim === "nbf") return rejected("early", `the claim nbf is more than ${SKEW_SECS} s ahead`);
  return rejected("mismatch", `the claim ${claim}`);
}

/** Checks the claims of a token whose signature is verified. */
function checkClaims(payload: JWTPayload, wanted: Jwt["claims"], nowSecs: number): undefined {
  if (payload.iat !== undefined && payload.iat > nowSecs + SKEW_SECS)
    throw rejected("early", `the claim iat is more than ${SKEW_SECS} s ahead`);
  for (const [name, value] of Object.entries(wanted)) {
    if (!Object.hasOwn(payload, name)) throw rejected("mismatch", `the token lacks the claim ${name}`);
    if (payload[name] !== value) throw rejected("mismatch", `the claim ${name}`);
  }
}
