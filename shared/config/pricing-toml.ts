import { z } from "zod";
import { isPrivateKey, NO_PRIVATE_KEY } from "../ethereum/signatures.ts";
import { jobQuoteDomain } from "./evm-fields.ts";
import { address, positive } from "./fields.ts";
import { type Env, secretValue } from "./secrets.ts";

const DAY_SECS = 86_400;
/** No client finds this many zero bits in the time it has, unless it has hardware for it. */
const DIFFICULTY_MAX = 32;

/** `pricing.toml`. Without the file the pricing engine is off. */
export function pricingToml(env: Env) {
  return z.strictObject({
    bind_address: address.default("0.0.0.0:50051"),
    http_address: z
      .union([address, z.literal(false)], 'must be "host:port", or false')
      .default("0.0.0.0:8404"),
    key: signingKey(env),
    domain: jobQuoteDomain,
    pow_difficulty: z.int().min(0).max(DIFFICULTY_MAX).default(20),
    quote_ttl_secs: positive.max(DAY_SECS).default(300),
    max_quote_age_secs: positive.max(DAY_SECS).default(3600),
  });
}
export type PricingToml = z.output<ReturnType<typeof pricingToml>>;

/** Its signature binds the operator's money, so the key may not stand in a file that people copy, review and show. */
function signingKey(env: Env) {
  return z
    .unknown()
    .refine((value) => typeof value !== "string" || /^(?:env|file):/.test(value), {
      message: "must be env:VAR or file:/path: the key itself does not belong in this file",
    })
    .pipe(secretValue(env))
    .refine((key) => isPrivateKey(key.reveal()), NO_PRIVATE_KEY);
}
