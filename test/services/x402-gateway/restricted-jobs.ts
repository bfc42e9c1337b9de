import { privateKeyToAccount } from "viem/accounts";
import { keccak256 } from "viem/utils";
import type { DevAccount } from "../../../services/dev/chain/chain.ts";
import type { TestX402Options } from "../../fixtures/x402.ts";

/** A job for payers whom the devnet's registry permits. */
export const BY_PAYER = "/x402/jobs/1/8";
/** A job for any payer, with the proof of a caller whom the registry permits. */
export const DELEGATED = "/x402/jobs/1/9";
/** A job like DELEGATED, whose proof must also name the gateway. */
export const BOUND = "/x402/jobs/1/10";
/** Maximum life of a caller's proof. */
export const EXPIRY_SECS_MAX = 600;

type Registry = { callerRegistry: string; rpcUrl: string };

/** Four jobs at one price. Every payer may buy the first. */
export function restrictedJobs({ callerRegistry: contract, rpcUrl: rpc_url }: Registry) {
  const restricted = { service_id: 1, invocation_mode: "restricted_paid", contract, rpc_url };
  return {
    prices: {
      "7": "1000000000000000",
      "8": "1000000000000000",
      "9": "1000000000000000",
      "10": "1000000000000000",
    },
    x402: {
      job_policies: [
        { ...restricted, job_index: 8, auth_mode: "payer_is_caller" },
        {
          ...restricted,
          job_index: 9,
          auth_mode: "delegated_caller_signature",
          caller_expiry_secs_max: EXPIRY_SECS_MAX,
        },
        {
          ...restricted,
          job_index: 10,
          auth_mode: "delegated_caller_signature",
          bound_caller_proof: true,
        },
      ],
    },
  } satisfies Partial<TestX402Options>;
}

type Proof = { by: DevAccount; nonce?: string; body?: string; expiresIn?: number; job?: number; at?: string };

/** Returns the headers of a caller's proof for this body of this job, at any gateway or bound to this one. */
export async function proofOf({
  by,
  nonce = "nonce-1",
  body = "hello",
  expiresIn = 300,
  job = 9,
  at,
}: Proof) {
  const expiry = String(Math.floor(Date.now() / 1000) + expiresIn);
  const bodyHash = keccak256(Buffer.from(body)).slice(2);
  const message = `x402-authorize${at === undefined ? "" : `@${at}`}:1:${job}:${bodyHash}:${nonce}:${expiry}`;
  return {
    "X-PLATFORM-CALLER": by.address,
    "X-PLATFORM-CALLER-NONCE": nonce,
    "X-PLATFORM-CALLER-SIG": await privateKeyToAccount(by.privateKey).signMessage({ message }),
    "X-PLATFORM-CALLER-EXPIRY": expiry,
  };
}
