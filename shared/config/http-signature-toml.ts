import { proofOf } from "../webhook-auth/auth-modes.ts";
import type { HttpSignature } from "../webhook-auth/http-signature/settings.ts";
import { HTTP_ALGORITHMS, hasKeyPair } from "../webhook-auth/keys/algorithms.ts";
import { isNamed, parseKeys } from "../webhook-auth/keys/jwk.ts";
import { inEach } from "./between-keys.ts";
import type { EndpointFields } from "./endpoint-fields.ts";
import { keysUrlProblem } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";

/** Rules between the keys of an endpoint with `auth = "http-signature"`. */
export function httpSignatureProblems(parsed: EndpointFields): Problem[] {
  const proof = proofOf(parsed);
  if (proof.by !== "http-signature") return [];
  const { signature } = proof;
  return [
    ...componentProblems(signature),
    ...directoryProblems(signature, parsed),
    ...keyProblems(signature, parsed),
  ];
}

/** Requires `content-digest` among the signed components. Without it, a signature would fit any body. */
function componentProblems({ components }: HttpSignature): Problem[] {
  if (components === undefined || components.includes("content-digest")) return [];
  return [problem(["http_signature", "components"], "must contain content-digest, which covers the body")];
}

function directoryProblems({ algorithm, directory }: HttpSignature, { secret }: EndpointFields): Problem[] {
  const at = ["http_signature", "directory"];
  if (directory === undefined)
    return secret === undefined
      ? [problem("secret", "is missing: set secret or http_signature.directory")]
      : [];
  if (secret !== undefined)
    return [problem("secret", "must not be set together with http_signature.directory: set one of the two")];
  const message = keysUrlProblem(directory);
  if (message !== undefined) return [problem(at, message)];
  if (hasKeyPair(HTTP_ALGORITHMS[algorithm])) return [];
  return [problem(at, `must not be set with ${algorithm}, whose key is secret`)];
}

/**
 * Limit on keys in PEM. A request may have 4 signatures, and each is tried with each key before the sender is
 * authenticated.
 */
const KEYS_TRIED_MAX = 4;

function keyProblems({ algorithm }: HttpSignature, { secret = [] }: EndpointFields): Problem[] {
  const tried = secret
    .flatMap((each) => parseKeys(each.reveal(), algorithm))
    .filter((key) => isNamed(key, undefined));
  if (hasKeyPair(HTTP_ALGORITHMS[algorithm]) && tried.length > KEYS_TRIED_MAX)
    return [
      problem(
        "secret",
        `must have at most ${KEYS_TRIED_MAX} keys in PEM, because each is tried: write them as a JWK Set`,
      ),
    ];
  return inEach(secret, (each, index) =>
    parseKeys(each.reveal(), algorithm).length === 0
      ? [
          problem(
            ["secret", index],
            `must be ${KEYS_EXPECTED[hasKeyPair(HTTP_ALGORITHMS[algorithm]) ? "public" : "secret"]} for ${algorithm}`,
          ),
        ]
      : [],
  );
}

const KEYS_EXPECTED = {
  public: "a public key as PEM, a JWK or a JWK Set",
  secret: "text, or a JWK or a JWK Set with keys of the type oct,",
} as const;
