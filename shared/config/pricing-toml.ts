import { z } from "zod";
import { isPrivateKey, PRIVATE_KEY_RULE } from "../chain/signatures.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { jobQuoteDomain } from "./evm-fields.ts";
import { address, positive } from "./fields.ts";
import { type SecretSource, secretValue } from "./secrets.ts";

const DAY_SECS = 86_400;
/**
 * Limit on `pow_difficulty`. To get a quote, a client must find a hash that begins with this number of zero bits
 * (shared/pricing/proof-of-work.ts). Above 32, no client without special hardware finds one in the available time.
 */
const DIFFICULTY_MAX = 32;

const powDifficulty = z.int().min(0).max(DIFFICULTY_MAX);

/** `pricing.toml`. Without the file the pricing engine is off. */
export function pricingToml(from: SecretSource) {
  return z.strictObject({
    bind_address: address.default("0.0.0.0:50051"),
    http_address: z
      .union([address, z.literal(false)], 'must be "host:port", or false')
      .default("0.0.0.0:8404"),
    key: signingKey(from),
    domain: jobQuoteDomain,
    pow_difficulty: powDifficulty.default(20),
    quote_ttl_secs: positive.max(DAY_SECS).default(300),
  });
}
export type PricingToml = z.output<ReturnType<typeof pricingToml>>;

/**
 * The schema of options passed in code. In code `key` may be the key itself; in pricing.toml it must be a reference.
 */
export function pricingOptions(from: SecretSource) {
  return pricingToml(from).extend({ key: secretValue(from).refine(isOperatorKey, PRIVATE_KEY_RULE) });
}

/**
 * The private key, as a reference. Its signatures commit the operator's money, so the key must not be in a file that
 * people copy, review and show.
 */
function signingKey(from: SecretSource) {
  return z
    .unknown()
    .refine((value) => typeof value !== "string" || /^(?:env|file):/.test(value), {
      message: "must be env:VAR or file:/path: the key itself must not be in this file",
    })
    .pipe(secretValue(from))
    .refine(isOperatorKey, PRIVATE_KEY_RULE)
    .meta({ writtenAs: z.string().regex(/^(?:env|file):/) });
}

function isOperatorKey(key: Pick<Secret, "reveal">): boolean {
  return isPrivateKey(key.reveal());
}

/** Minimum price of a quote that the contracts accept. */
const QUOTED_PRICE_WEI_MIN = 100n;

/** Returns the reason why a quote cannot have this price, in wei; undefined if it can. */
export function tooCheapToQuote(priceWei: bigint): string | undefined {
  if (priceWei >= QUOTED_PRICE_WEI_MIN) return undefined;
  return `must be at least ${QUOTED_PRICE_WEI_MIN} wei: contracts refuse quotes of less`;
}
