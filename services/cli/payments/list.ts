import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import {
  createPaymentList,
  isDisputed,
  type PaymentFilter,
  type PaymentSummary,
} from "../../../shared/payments/list.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { readAcceptedTokens, tokenOf } from "../accepted-tokens.ts";
import { createListing } from "../listing.ts";
import type { Tone } from "../output.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { inTokens, toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";

/** A limit of 0 is none. */
export type ListOptions = PaymentFilter & { limit: number; configDir: string; json?: boolean };

/** `postern payments list`: the newest payments first, then how many were listed. */
export function listPayments(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
  return withRedis(deps, options, async ({ partition }) => {
    const tokens = readAcceptedTokens({ ...deps, printError: () => {} }, options.configDir, "names") ?? [];
    const listing = createListing(deps, options.json, {
      columns: [
        { heading: "CALL", width: 34 },
        { heading: "CLAIMED", width: 20 },
        { heading: "STATE", width: 14, tone: toneOfState },
        { heading: "PAYER", width: 42 },
        { heading: "AMOUNT", width: 24 },
        { heading: "JOB", width: 8 },
        { heading: "REMARK", cutTo: 20, tone: (remark) => (/[A-Z]{8}: /.test(remark) ? "bad" : undefined) },
      ],
      toCells: (payment: PaymentSummary) => toCells(payment, tokenOf(tokens, payment.terms)?.decimals),
      toJson,
    });
    let found = 0;
    for await (const payment of createPaymentList(partition).matching(options)) {
      found += 1;
      if (found > limit) break;
      listing.add(payment);
    }
    const listed = Math.min(found, limit);
    const more = found > limit ? ", and there are more (--limit 0 lists all)" : "";
    listing.end(`${listed} ${listed === 1 ? "payment" : "payments"}${more}`);
    return EXIT.ok;
  });
}

/** How a payment's state is coloured. */
export function toneOfState(state: string): Tone | undefined {
  if (state === "injected" || state === "refunded") return "good";
  if (state === "failed" || state === "review") return "bad";
  return state === "refund_pending" || state === "settling" ? "attention" : undefined;
}

/** Without decimals it is in the token's smallest units. */
export function amountOf(
  { amount, symbol }: { amount: string; symbol: string },
  decimals: number | undefined,
): string {
  if (decimals === undefined) return `${amount} ${symbol} units`;
  return `${inTokens(BigInt(amount), decimals)} ${symbol}`;
}

function toCells(payment: PaymentSummary, decimals: number | undefined): string[] {
  const { id, state, claimedAt, terms, reason } = payment;
  const job = `${terms.service_id}/${terms.job_index}`;
  const later = payment.isNewer ? "a later release's; " : "";
  const remark = `${later}${isDisputed(payment) ? "DISPUTED: " : ""}${reason ?? refundRemark(payment)}`;
  return [
    id,
    toIsoSeconds(claimedAt),
    state.toLowerCase(),
    terms.payer,
    amountOf(terms, decimals),
    job,
    remark,
  ];
}

function refundRemark({ refund, refunded, lateAt }: PaymentSummary): string {
  const late = lateAt === undefined ? "" : "; ATTENTION: the job was done";
  if (refunded !== undefined) return `by transaction ${refunded.transaction}${late}`;
  return refund === undefined ? "" : `export ${refund.export}${late}`;
}

/** A payment for scripts. Amounts are in the token's smallest unit. */
export function toJson(payment: Omit<PaymentSummary, "isNewer">) {
  const { id, state, claimedAt, changedAt, terms, settlement, proven, dispatches, reason, sinceBlock } =
    payment;
  return {
    call_id: id,
    state: state.toLowerCase(),
    claimed_at: toIso(claimedAt),
    changed_at: toIso(changedAt),
    terms,
    settlement: settlement ?? null,
    proven,
    disputed: isDisputed(payment),
    dispatches,
    since_block: String(sinceBlock),
    reason: reason ?? null,
    effect: payment.effect,
    refund: payment.refund ?? null,
    refunded: payment.refunded ?? null,
    late_at: payment.lateAt === undefined ? null : toIso(payment.lateAt),
  };
}
