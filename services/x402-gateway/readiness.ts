import type { Readiness } from "../../shared/http/ops.ts";
import type { Chains } from "./chains.ts";
import type { Facilitators } from "./facilitators.ts";

type Deps = {
  admission: () => Readiness;
  facilitators: Facilitators;
  chains: Chains;
  trustFacilitator: boolean;
};

/** Facilitators and chains are the same for every replica: their absence is reported, and makes none of them unready. */
export function readiness({ admission, facilitators, chains, trustFacilitator }: Deps): Readiness {
  const { ready, checks } = admission();
  return {
    ready,
    checks: {
      ...checks,
      facilitators: facilitators.available(),
      chains: chains.available(),
      trust_facilitator: trustFacilitator,
    },
  };
}
