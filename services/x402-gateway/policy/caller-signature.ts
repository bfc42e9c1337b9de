import type { IncomingMessage } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import { type Address, isAddress } from "../../../shared/ethereum/address.ts";
import { keccak256Hex } from "../../../shared/ethereum/encoding.ts";
import { personalMessageDigest, recoverAddress } from "../../../shared/ethereum/signatures.ts";
import { onlyHeaderValue } from "../../../shared/http/headers.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import { platformKeys } from "../../../shared/job-call/metadata.ts";

/** What a caller signs for: this body for this job, once (by the nonce), until `expirySecs` (unix seconds). */
export type CallerProof = { caller: Address; nonce: string; expirySecs: number; signature: string };

const NONCE = /^[!-~]{1,128}$/;
/** One form for each second, so that the text signed is the text sent; 15 digits survive a double. */
const EXPIRY = /^(?:0|[1-9]\d{0,14})$/;

/**
 * Reads the four headers of a delegated caller. Throws `caller.missing` where one is absent, `caller.proof_invalid` where
 * one came twice or is malformed. Nothing is proven yet: see `isSignedByCaller`.
 */
export function readCallerProof(req: IncomingMessage, metadataPrefix: string): CallerProof {
  const { caller: name } = platformKeys(metadataPrefix);
  const caller = requiredHeader(req, name);
  const nonce = requiredHeader(req, `${name}-NONCE`);
  const signature = requiredHeader(req, `${name}-SIG`);
  const expiry = requiredHeader(req, `${name}-EXPIRY`);
  if (!isAddress(caller)) throw invalidProof(`${name} must be an address: 0x and 40 hex digits`);
  if (!NONCE.test(nonce)) throw invalidProof(`${name}-NONCE must be 1 to 128 visible ASCII characters`);
  if (!EXPIRY.test(expiry)) throw invalidProof(`${name}-EXPIRY must be whole unix seconds, in decimal`);
  return { caller: caller.toLowerCase() as Address, nonce, signature, expirySecs: Number(expiry) };
}

export type SignedFor = JobIds & { body: Uint8Array };

/** Whether the claimed caller's key made the signature (EIP-191 `personal_sign`) over this job, body, nonce and expiry. */
export function isSignedByCaller(proof: CallerProof, signedFor: SignedFor): boolean {
  return recoverAddress(personalMessageDigest(textOf(proof, signedFor)), proof.signature) === proof.caller;
}

/** The nonce may hold colons: what follows the last one is the expiry, so no two proofs share a text. */
function textOf({ nonce, expirySecs }: CallerProof, { serviceId, jobIndex, body }: SignedFor): string {
  const bodyHash = keccak256Hex(body).slice(2);
  return `x402-authorize:${serviceId}:${jobIndex}:${bodyHash}:${nonce}:${expirySecs}`;
}

export function invalidProof(detail: string): AppError {
  return AppError.public("caller.proof_invalid", detail);
}

function requiredHeader(req: IncomingMessage, name: string): string {
  const found = onlyHeaderValue(req, name.toLowerCase());
  if ("value" in found) return found.value;
  if (found.problem === "repeated") throw invalidProof(`${name} came more than once`);
  throw AppError.public("caller.missing", `the header ${name} is missing`);
}
