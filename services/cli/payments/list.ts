import type { PaymentView } from "../../../shared/console/payment-view.ts";
import type { PaymentFilter } from "../../../shared/console/payments.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import type { Tone } from "../output.ts";
import { pagesOf } from "../pagination.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, inTokens, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

/** A limit of 0 means no limit. */
export type ListOptions = FilterOptions &
  Pick<PaymentFilter, "open" | "disputed" | "acknowledged"> &
  OperationTarget & {
    limit: number;
    json?: boolean;
  };

const PAGE_MAX = 500;

/** `postern payments list`: prints payments, newest first, and then their number. */
export function listPayments(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  const { open, disputed, acknowledged } = options;
  const filter: PaymentFilter = { ...toFilter(options), open, disputed, acknowledged };
  return withOperations(deps, options, async ({ listPayments }) => {
    const listing = createListing<PaymentView>(deps, {
      columns: [
        { heading: "CALL" },
        { heading: "RECEIVED" },
        { heading: "AGE", alignRight: true },
        { heading: "STATE", tone: toneOfState },
        { heading: "PAYER" },
        { heading: "AMOUNT" },
        { heading: "JOB" },
        {
          heading: "DETAILS",
          cutTo: 20,
          tone: (details) => (/[A-Z]{8}: /.test(details) ? "bad" : undefined),
        },
        { heading: "NETWORK", isWide: true },
        { heading: "RECIPIENT", isWide: true },
        { heading: "TRANSACTION", isWide: true },
      ],
      toCells,
      toJson: (payment) => payment,
      toName: ({ call_id }) => call_id,
    });
    const read = (cursor?: string) => listPayments({ ...filter, limit: PAGE_MAX, cursor });
    let found = 0;
    for await (const payment of pagesOf(read, ({ payments }) => payments)) {
      found += 1;
      if (found > limit) break;
      listing.add(payment);
    }
    const listed = Math.min(found, limit);
    const more = found > limit ? "; there are more (--limit 0 lists all)" : "";
    listing.end(`${counted(listed, "payment")}${more}`);
    return EXIT.ok;
  });
}

/** Returns the tone, and so the colour, of a payment's state. */
export function toneOfState(state: string): Tone | undefined {
  if (state === "injected" || state === "refunded") return "good";
  if (state === "failed" || state === "review") return "bad";
  return state === "refund_pending" || state === "settling" ? "attention" : undefined;
}

/** Formats an amount. If the decimals are unknown, it is in the token's smallest units. */
export function amountOf(
  { amount, symbol }: { amount: string; symbol: string },
  decimals: number | null | undefined,
): string {
  if (decimals == null) return `${amount} smallest units of ${symbol}`;
  return `${inTokens(BigInt(amount), decimals)} ${symbol}`;
}

function toCells(payment: PaymentView): string[] {
  const { call_id: id, state, claimed_at: claimedAt, terms, reason, decimals, disputed } = payment;
  const job = `${terms.service_id}/${terms.job_id}`;
  const details = `${disputed ? "DISPUTED: " : ""}${reason ?? refundDetails(payment)}`;
  return [
    id,
    toSeconds(claimedAt),
    age(claimedAt),
    state,
    terms.payer,
    amountOf(terms, decimals),
    job,
    details,
    terms.network,
    terms.pay_to,
    payment.settlement?.transaction ?? "-",
  ];
}

function refundDetails({ refund, refunded, late_at: lateAt }: PaymentView): string {
  const late = lateAt === null ? "" : "; ATTENTION: the runner did the job";
  if (refunded !== null) return `refunded by transaction ${refunded.transaction}${late}`;
  return refund === null ? "" : `export ${refund.export}${late}`;
}
