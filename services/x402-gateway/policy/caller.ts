import type { IncomingMessage } from "node:http";
import type { JobPolicy as PolicyToml, X402Toml } from "../../../shared/config/x402-toml.ts";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Address } from "../../../shared/ethereum/address.ts";
import { type JobIds, jobKey } from "../../../shared/job-call/job-ids.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { type CallerProof, invalidProof, isSignedByCaller, readCallerProof } from "./caller-signature.ts";
import type { IsPermittedCaller } from "./permitted-callers.ts";

type Restricted = { mode: "restricted_paid"; contract: Address; rpcUrl: Secret };

/** Who may buy a job. A restricted one asks its contract whether it permits the caller. */
export type JobPolicy =
  | { mode: "public_paid" }
  | { mode: "disabled" }
  | (Restricted & { authMode: "payer_is_caller" })
  | (Restricted & { authMode: "delegated_caller_signature"; expirySecsMax: number });

/** The policy of every job: its entry in x402.toml, or the default. */
export function createPolicies(
  x402: Pick<X402Toml, "job_policies" | "default_invocation_mode">,
): (ids: JobIds) => JobPolicy {
  const configured = new Map(
    x402.job_policies.map((entry) => [
      jobKey({ serviceId: entry.service_id, jobIndex: entry.job_index }),
      toPolicy(entry),
    ]),
  );
  return (ids) => configured.get(jobKey(ids)) ?? { mode: x402.default_invocation_mode };
}

function toPolicy(entry: PolicyToml): JobPolicy {
  if (entry.invocation_mode !== "restricted_paid") return { mode: entry.invocation_mode };
  const restricted = { mode: entry.invocation_mode, contract: entry.contract, rpcUrl: entry.rpc_url };
  switch (entry.auth_mode) {
    case "payer_is_caller":
      return { ...restricted, authMode: entry.auth_mode };
    case "delegated_caller_signature":
      return { ...restricted, authMode: entry.auth_mode, expirySecsMax: entry.caller_expiry_secs_max };
  }
}

export type CallerRequest = {
  job: JobIds & { policy: JobPolicy };
  /** For the headers of a delegated caller. */
  req: IncomingMessage;
  body: Uint8Array;
  /** As recovered from the payment's signature. */
  payer: Address;
};

/** A caller who is proven and permitted. */
export type AuthorizedCaller = {
  /** In lower case. */
  address: Address;
  /** With a delegated proof: what the claim burns, and for how long it has to stay burned. */
  nonce?: { hash: string; ttlMs: number };
};

export type AuthorizeCaller = (request: CallerRequest) => Promise<AuthorizedCaller | undefined>;

type Deps = { metadataPrefix: string; clock: Clock; isPermittedCaller: IsPermittedCaller };

/** A burned nonce outlives its proof by what the clocks of the replicas may differ. */
const CLOCK_MARGIN_MS = 10 * 60_000;

/**
 * Tells who calls a restricted job, undefined where anybody may. Throws `job.disabled`, `caller.missing`,
 * `caller.proof_invalid`, `caller.not_permitted` or `caller.check_unavailable`. It writes nothing: a nonce is used up by
 * the claim alone, so that a dry-run costs none.
 */
export function createCallerPolicy({ metadataPrefix, clock, isPermittedCaller }: Deps): AuthorizeCaller {
  function proven(request: CallerRequest, policy: JobPolicy & Restricted): AuthorizedCaller {
    switch (policy.authMode) {
      case "payer_is_caller":
        return { address: request.payer.toLowerCase() as Address };
      case "delegated_caller_signature": {
        const proof = readCallerProof(request.req, metadataPrefix);
        const leftMs = timeLeftMs(proof, { now: clock(), expirySecsMax: policy.expirySecsMax });
        if (!isSignedByCaller(proof, { ...request.job, body: request.body }))
          throw invalidProof("the caller's signature is not theirs for this job, body, nonce and expiry");
        return { address: proof.caller, nonce: { hash: nonceHash(request.job, proof), ttlMs: leftMs } };
      }
    }
  }

  return async function authorizeCaller(request) {
    const { policy, serviceId } = request.job;
    switch (policy.mode) {
      case "public_paid":
        return undefined;
      case "disabled":
        throw new AppError("job.disabled", { reason: "its policy is disabled" });
      case "restricted_paid": {
        const caller = proven(request, policy);
        if (await isPermittedCaller({ policy, serviceId, caller: caller.address })) return caller;
        throw new AppError("caller.not_permitted", {
          reason: `${policy.contract} does not permit ${caller.address}`,
        });
      }
    }
  };
}

/** For how long the proof's nonce has to be remembered. */
function timeLeftMs(
  { expirySecs }: CallerProof,
  { now, expirySecsMax }: { now: number; expirySecsMax: number },
): number {
  const leftMs = expirySecs * 1000 - now;
  if (leftMs <= 0) throw invalidProof("the caller's proof has expired");
  if (leftMs > expirySecsMax * 1000)
    throw invalidProof(`the caller's proof expires more than ${expirySecsMax} seconds ahead`);
  return leftMs + CLOCK_MARGIN_MS;
}

/** The nonce stands last, since it may hold any separator. */
function nonceHash(ids: JobIds, { caller, nonce }: CallerProof): string {
  return sha256Hex(Buffer.from(`${jobKey(ids)}/${caller}/${nonce}`));
}
