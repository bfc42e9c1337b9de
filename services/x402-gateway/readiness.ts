import type { Readiness } from "../../shared/http/readiness.ts";
import type { ObservedRate } from "../../shared/pricing/rates/rates.ts";
import type { Chains } from "./chains.ts";
import type { Facilitators } from "./facilitator/pool.ts";

type Deps = {
  admission: () => Readiness;
  facilitators: Facilitators;
  chains: Chains;
  rates: () => readonly ObservedRate[];
  trustFacilitator: boolean;
};

/**
 * Facilitators, chains and the sources of rates are the same for every replica: their absence is reported, and makes none
 * of them unready.
 */
export function readiness({ admission, facilitators, chains, rates, trustFacilitator }: Deps): Readiness {
  const { ready, checks } = admission();
  return {
    ready,
    checks: {
      ...checks,
      facilitators: facilitators.available(),
      chains: chains.available(),
      rates: rates().map(({ network, asset, symbol, value }) => ({
        network,
        asset,
        symbol,
        ok: value !== undefined,
      })),
      trust_facilitator: trustFacilitator,
    },
  };
}
