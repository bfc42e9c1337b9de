import type { PaymentFilter } from "../../../shared/console/payments.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";

/** Options that select payments. The times are unix ms. */
export type FilterOptions = Pick<PaymentFilter, "state" | "payer"> & { since?: number; until?: number };

export function toFilter({ state, payer, since, until }: FilterOptions) {
  return {
    state,
    payer,
    ...(since !== undefined && { since: toIso(since) }),
    ...(until !== undefined && { until: toIso(until) }),
  };
}
