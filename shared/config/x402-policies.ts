import { z } from "zod";
import { id } from "./fields.ts";
import { JOB_INDEX_MAX } from "./job-pricing-toml.ts";
import type { Env } from "./secret-value.ts";
import { evmAddress, rpcUrl } from "./x402-tokens.ts";

const job = { service_id: id, job_index: z.int().min(0).max(JOB_INDEX_MAX) };

/** Far enough for any date a signer writes; the default is an hour. */
const TEN_BILLION_SECS = 10_000_000_000;

/** Who may buy a job. A `restricted_paid` job asks the contract whether it permits the caller. */
export function jobPolicy(env: Env) {
  const restricted = {
    ...job,
    invocation_mode: z.literal("restricted_paid"),
    rpc_url: rpcUrl(env),
    contract: evmAddress,
  };
  return z.discriminatedUnion("invocation_mode", [
    z.strictObject({ ...job, invocation_mode: z.literal("public_paid") }),
    z.strictObject({ ...job, invocation_mode: z.literal("disabled") }),
    z.discriminatedUnion("auth_mode", [
      z.strictObject({ ...restricted, auth_mode: z.literal("payer_is_caller") }),
      z.strictObject({
        ...restricted,
        auth_mode: z.literal("delegated_caller_signature"),
        caller_expiry_secs_max: z.int().min(1).max(TEN_BILLION_SECS).default(3600),
      }),
    ]),
  ]);
}
