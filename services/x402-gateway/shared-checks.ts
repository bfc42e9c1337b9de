import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import type { Rates } from "../../shared/pricing/rates/rates.ts";
import type { Facilitators } from "./facilitator/pool.ts";
import type { Chains } from "./payment/chains.ts";

/**
 * Facilitators, chains and the sources of rates are the same for every replica. So their absence is reported, and makes no
 * replica unready.
 */
export function toSharedChecks(
  { trust_facilitator }: X402Toml,
  facilitators: Facilitators,
  chains: Chains,
  rates: Rates<AcceptedToken>,
) {
  return {
    facilitators: facilitators.available(),
    chains: chains.available(),
    rates: rates.observed().map(({ network, asset, symbol, value, failure }) => {
      const why = failure && { reason: failure.reason, failed_at: new Date(failure.at).toISOString() };
      return { network, asset, symbol, ok: value !== undefined, ...why };
    }),
    trust_facilitator,
  };
}
