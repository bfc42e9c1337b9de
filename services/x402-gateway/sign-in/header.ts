import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { type Address, isAddress } from "../../../shared/chain/address.ts";
import { hasRightChecksum } from "../../../shared/chain/checksum.ts";
import { chainIdOf, type Hex, isEvmNetwork } from "../../../shared/chain/encoding.ts";
import type { SignInMessage } from "../../../shared/chain/sign-in-message.ts";
import { firstProblem, messageForJson } from "../../../shared/config/problem.ts";
import { decodeBase64Json } from "../../../shared/http/base64-json.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { SIGN_IN_VERSION, SIGN_IN_WITH_X, type SignInTerms } from "./challenge.ts";
import { NONCE_MS, type SignInNonces } from "./nonce.ts";

const SIGNATURE_BYTES_MAX = 4096;
/** Tolerance for the times that a client signs, because it takes them from its own clock. */
const SIGNER_CLOCK_SKEW_MS = 3 * 60_000;

const text = z.string().max(2000);
const time = z
  .string()
  .max(40)
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/, "must be an RFC 3339 time")
  .refine((written) => !Number.isNaN(Date.parse(written)), "must be an RFC 3339 time");

/**
 * Content of the sign-in header. The signed text is made of these members only. An unknown member would not be signed, so it is
 * refused.
 */
const Signed = z.strictObject({
  domain: text,
  address: z
    .string()
    .refine(isAddress, "must be 0x and 40 hex digits")
    .transform((written) => written as Address)
    .refine(hasRightChecksum, "must have a valid EIP-55 checksum"),
  statement: text,
  uri: text,
  version: text,
  chainId: z.string().refine(isEvmNetwork, "must be eip155: followed by a number"),
  type: text,
  nonce: text,
  issuedAt: time,
  expirationTime: time.nullish(),
  notBefore: time.nullish(),
  /** A hint that the gateway ignores. */
  signatureScheme: text.nullish(),
  signature: z
    .string()
    .max(2 + 2 * SIGNATURE_BYTES_MAX, `is over ${SIGNATURE_BYTES_MAX} bytes`)
    .regex(/^0x(?:[0-9a-fA-F]{2})+$/, "must be 0x and hex digits")
    .transform((written) => written as Hex),
});
type Signed = z.output<typeof Signed>;

/** A sign-in with valid content. Its signature is not verified yet. */
export type ClaimedSignIn = {
  /** Lower case. */
  address: Address;
  message: SignInMessage;
  signature: Hex;
  nonce: string;
  /** Time at which the nonce was issued (unix ms). */
  nonceIssuedAt: number;
};

type Deps = {
  nonces: SignInNonces;
  termsOf: (callId: string) => SignInTerms;
  networks: readonly string[];
  clock: Clock;
};

export type ReadSignIn = ReturnType<typeof createReadSignIn>;

/**
 * Creates the function that reads a request's sign-in to a call and checks it strictly. It does not verify the signature, and
 * calls no other service. It throws `result.sign_in_required`.
 */
export function createReadSignIn({ nonces, termsOf, networks, clock }: Deps) {
  return (req: Pick<IncomingMessage, "rawHeaders">, callId: string): ClaimedSignIn => {
    const signed = decode(headerValues(req, SIGN_IN_WITH_X));
    const terms = termsOf(callId);
    assertSame("domain", signed.domain, terms.domain);
    assertSame("uri", signed.uri, terms.uri);
    assertSame("statement", signed.statement, terms.statement);
    assertSame("version", signed.version, SIGN_IN_VERSION);
    assertSame("type", signed.type, "eip191");
    if (!networks.includes(signed.chainId)) throw notSignedIn("chainId: must be one of supportedChains");
    const checked = nonces.check(callId, signed.nonce);
    if ("problem" in checked) throw notSignedIn(`nonce: ${checked.problem}`);
    assertTimely(signed, checked.issuedAt, clock());
    const { address, nonce, signature, issuedAt } = signed;
    const [expirationTime, notBefore] = [signed.expirationTime ?? undefined, signed.notBefore ?? undefined];
    const chainId = chainIdOf(signed.chainId);
    return {
      address: address.toLowerCase() as Address,
      message: { ...terms, address, chainId, nonce, issuedAt, expirationTime, notBefore },
      signature,
      nonce,
      nonceIssuedAt: checked.issuedAt,
    };
  };
}

const NO_PROOF =
  "send the result_token of the call's 202 as Authorization: Bearer or ?token=, or sign in as the payer (sign-in-with-x)";

function decode([header, ...more]: string[]): Signed {
  if (header === undefined) throw notSignedIn(NO_PROOF);
  if (more.length > 0) throw notSignedIn("the header was sent more than once");
  const decoded = decodeBase64Json(header);
  if ("problem" in decoded) throw notSignedIn(`the header ${decoded.problem}`);
  const result = Signed.safeParse(decoded.value, { error: messageForJson });
  if (result.success) return result.data;
  throw notSignedIn(firstProblem(result.error, "the header"), result.error);
}

function assertSame(name: string, signed: string, wanted: string): void {
  if (signed !== wanted) throw notSignedIn(`${name}: must be ${JSON.stringify(wanted)}`);
}

/**
 * Asserts that the signed times match the nonce. They may differ a little, because they are by the client's clock. The nonce has
 * its time from Redis' clock.
 */
function assertTimely(signed: Signed, nonceIssuedAt: number, now: number): void {
  const at = Date.parse(signed.issuedAt) - nonceIssuedAt;
  if (at < -SIGNER_CLOCK_SKEW_MS || at > NONCE_MS + SIGNER_CLOCK_SKEW_MS)
    throw notSignedIn("issuedAt: does not match the time of its nonce");
  const { expirationTime, notBefore } = signed;
  if (expirationTime && Date.parse(expirationTime) <= now - SIGNER_CLOCK_SKEW_MS)
    throw notSignedIn("expirationTime: is in the past");
  if (notBefore && Date.parse(notBefore) > now + SIGNER_CLOCK_SKEW_MS)
    throw notSignedIn("notBefore: is in the future");
}

export function notSignedIn(detail: string, cause?: unknown): AppError {
  return AppError.public("result.sign_in_required", detail, { cause });
}
