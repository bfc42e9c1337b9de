import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import type { EventOrder } from "../chain/proof.ts";
import { tokenOf } from "../config/accepted-tokens.ts";
import { createAllPayments } from "../payments/all-payments.ts";
import { type FoundState, PaymentJournal } from "../payments/journal.ts";
import type { PaymentFilter as Filter } from "../payments/list.ts";
import { type Payment, type PaymentState, toAuthorization } from "../payments/payment.ts";
import { createResolve, type Verdict } from "../payments/resolve.ts";
import { TRANSFER_TAKEN } from "../payments/scripts.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { OperatorDeps } from "../queue/operate.ts";
import { defineScript } from "../redis/define-script.ts";
import { byCall, type Partition } from "../redis/partition.ts";
import { text } from "../redis/reply.ts";
import { createCountOnce } from "../telemetry/series/count-once.ts";
import callHeadLua from "./call-head.lua";
import { payer, transaction } from "./contract/parameters.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { PAYMENT_STATE_VIEWS } from "./payment-states.ts";
import { type PaymentDetail, PaymentView, toPaymentDetail, toPaymentView } from "./payment-view.ts";
import { createInFlight, createReconcile, type InFlightPage, type Reconciled } from "./reconcile.ts";
import { createListSpentElsewhere, type ListSpentElsewhere } from "./spent-elsewhere.ts";
import { decimalsFrom, type TokenSource } from "./tokens.ts";
import { askedMs, askedTime, reason } from "./view.ts";

const CALL_HEAD = defineScript({ source: callHeadLua, keys: "payment", proof: "reads", reply: text });

/** Selects payments that meet every field present. The times are those of the claim, both inclusive. */
export const PaymentFilter = z.strictObject({
  state: z.enum(PAYMENT_STATE_VIEWS).optional(),
  payer: payer.optional(),
  since: askedTime.optional(),
  until: askedTime.optional(),
  /** True selects payments whose state is not final. */
  open: z.boolean().optional(),
  /** True selects payments that count as paid but are contradicted by evidence that no operator has acknowledged. */
  disputed: z.boolean().optional(),
  /** True selects payments that count as paid but are contradicted by evidence that an operator has acknowledged. */
  acknowledged: z.boolean().optional(),
});
export type PaymentFilter = z.infer<typeof PaymentFilter>;

/** An operator's decision about a payment. */
export const Decision = z
  .discriminatedUnion("verdict", [
    /** The payment was made. Its call is queued. */
    z.strictObject({ verdict: z.literal("settled"), transaction, reason }).meta({ id: "SettledDecision" }),
    /** The payment was not made and can no longer be made. Its body is deleted. */
    z.strictObject({ verdict: z.literal("void"), reason }).meta({ id: "VoidDecision" }),
    /** The operator has seen that the payment is disputed. */
    z.strictObject({ verdict: z.literal("acknowledged"), reason }).meta({ id: "AcknowledgedDecision" }),
    /**
     * Gives up a payment that is settling or in review. Its body is deleted, and no further settle request is sent. If
     * the chain then shows that the payment was made after all, its refund is due.
     */
    z.strictObject({ verdict: z.literal("dropped"), reason }).meta({ id: "DroppedDecision" }),
  ])
  .meta({ id: "Decision" });
export type Decision = z.infer<typeof Decision>;

export const PaymentPage = z.object({
  payments: z.array(PaymentView),
  /** Null on the last page. Any other page may be empty, because one request reads a limited number of payments. */
  next,
});
export type PaymentPage = z.infer<typeof PaymentPage>;

export const PaymentPlace = z.strictObject({ at: z.number(), id: z.string().regex(CALL_ID) });

export type PaymentsApi = {
  /** Lists payments, newest first. */
  page(filter: PaymentFilter, page: PageRequest): Promise<PaymentPage>;
  /** Shows a payment. Throws `payment.unknown`. */
  show(id: string): Promise<PaymentDetail>;
  /**
   * Records a decision about a payment. Throws `payment.unknown`, or `payment.undecidable` if its state does not allow
   * the decision. Throws `payment.not_shown` if the transaction does not pay for the call, and
   * `payment.transfer_taken` if it pays for another call.
   */
  resolve(id: string, decide: Decision): Promise<void>;
  /** Makes the payment due for a check, so that a gateway checks it next. Waits at most `waitMs` until this is done. */
  reconcile(id: string, waitMs: number): Promise<Reconciled>;
  /**
   * Lists the payments that gateways still check, in the order of their next checks. Leaves out payments whose call is
   * in a queue or has failed. One request reads a limited number of payments. So a page may be empty although other
   * pages follow, unless its `next` is null.
   */
  inFlight(page: PageRequest): Promise<InFlightPage>;
  spentElsewhere: ListSpentElsewhere;
};

type Deps = OperatorDeps & {
  tokens: TokenSource;
  /**
   * Whether this deployment counts its revenue (shared/telemetry/series). If so, a payment that an operator settles
   * counts too.
   */
  countsEarned: boolean;
};

/** Implements the operations on payments. Each decision writes a line in the audit log. */
export function createPaymentsApi({ tokens, countsEarned, ...deps }: Deps): PaymentsApi {
  const { partitions, clock, log, by } = deps;
  const { control } = partitions;
  const payments = createAllPayments(partitions);
  const count = countsEarned ? createCountOnce(control, clock) : undefined;
  const own = byCall(
    partitions.map((partition) => {
      const journal = new PaymentJournal(partition);
      const decide = createResolve({ journal, clock, log, by, ...(count && { count }) });
      return {
        findWithoutCall: (id: string) => journal.findWithoutCall(id),
        lookWhole: createReadWithBodyType(partition, journal),
        decide: (_id: string, ...decision: Parameters<typeof decide>) => decide(...decision),
        reconcile: createReconcile({ ...deps, partition }),
      };
    }),
  );
  const decimalsOf = decimalsFrom(tokens);

  return {
    reconcile: own.reconcile,
    inFlight: createInFlight(partitions),
    spentElsewhere: createListSpentElsewhere(control, tokens),

    async page(filter, { limit, cursor }) {
      const after = fromCursor(PaymentPlace, cursor);
      const found = await payments.page(toFilter(filter), { after, limit });
      const views = found.payments.map((each) => toPaymentView(each, decimalsOf));
      return { payments: views, next: toCursor(found.next) };
    },

    async show(id) {
      const [payment, contentType] = await own.lookWhole(id);
      if (payment === undefined) throw unknownPayment(id);
      return toPaymentDetail(payment, contentType, decimalsOf);
    },

    async resolve(id, decision) {
      const payment = await own.findWithoutCall(id);
      if (payment === undefined) throw unknownPayment(id);
      const asked =
        decision.verdict === "settled"
          ? await findSettlement(tokens, payment, decision.transaction)
          : { kind: decision.verdict };
      const resolved = await own.decide(id, payment, asked, decision.reason);
      if (resolved.kind === "left") throw whyUndecidable(payment, asked, resolved.state);
    },
  };
}

/** Reads a payment, and the content type of its body as long as the body is kept. */
function createReadWithBodyType({ redis, keys }: Partition, journal: PaymentJournal) {
  const callHead = CALL_HEAD.on(redis);
  return async (id: string): Promise<[Payment | undefined, string | undefined]> => {
    const [payment, head] = await Promise.all([
      journal.findWithoutCall(id),
      callHead({ payment: keys.payment(id) }),
    ]);
    const { content_type } = head === "" ? {} : (JSON.parse(head) as { content_type?: string });
    return [payment, content_type];
  };
}

/** Returns the error for an id without a stored payment. */
export function unknownPayment(id: string): AppError {
  const detail = `${id} is unknown: there was no such payment, or its call ended more than 30 days ago`;
  return AppError.public("payment.unknown", detail);
}

export function toFilter({ state, since, until, ...rest }: PaymentFilter): Filter {
  return {
    ...rest,
    states: state === undefined ? undefined : [state.toUpperCase() as PaymentState],
    since: askedMs(since),
    until: askedMs(until),
  };
}

function whyUndecidable(
  { id, decided, acknowledged }: Payment,
  verdict: Verdict,
  state: FoundState,
): AppError {
  if (state === TRANSFER_TAKEN) {
    const transaction = verdict.kind === "settled" ? verdict.transaction : "";
    const detail = `the transfer in transaction ${transaction} pays for another call; nothing was changed`;
    return AppError.public("payment.transfer_taken", detail);
  }
  const isAcknowledged = verdict.kind === "acknowledged";
  const which = ONLY[verdict.kind];
  const left = `${id} is ${state?.toLowerCase() ?? "gone"}: ${which}; nothing was changed`;
  // Names the earlier decision. The audit log may lack it, because a process can die before it writes the line.
  const earlier = isAcknowledged ? acknowledged : decided;
  const words = earlier === undefined ? left : `${left}. It was decided by ${earlier.by}: ${earlier.reason}`;
  return AppError.public("payment.undecidable", words);
}

const IN_REVIEW = "only a payment in review can be resolved";

const ONLY = {
  settled: IN_REVIEW,
  void: IN_REVIEW,
  acknowledged: "only a disputed payment can be acknowledged",
  dropped: "only the body of a payment that is settling or in review can be dropped",
} as const;

/**
 * Looks on the chain for the transfer of this payment in the transaction that the operator has named. Does not look if
 * the token has no node. Throws if the transaction does not pay for the call.
 */
async function findSettlement(
  tokens: TokenSource,
  { id, terms }: Payment,
  transaction: string,
): Promise<Verdict> {
  const token = tokenOf(tokens.chains(), terms);
  if (token === undefined) {
    const detail = `x402.toml has no token ${terms.asset} on ${terms.network}, so its chain cannot be queried`;
    throw AppError.public("token.unconfigured", detail);
  }
  const chain = tokens.chainOf(token);
  if (chain === undefined) return { kind: "settled", transaction, positions: [] };
  const authorization = toAuthorization(terms, token.event_order);
  const proof = await chain.proofOf(transaction as `0x${string}`, authorization);
  if (proof?.kind === "paid") return { kind: "settled", transaction, positions: [proof.position] };
  if (proof?.kind === "wrapped") return { kind: "settled", transaction, positions: proof.positions };
  const why = NOT_SHOWN[proof?.kind ?? "gone"](transaction, token.event_order);
  throw AppError.public("payment.not_shown", `${why}; ${id} was not changed`);
}

const NOT_SHOWN = {
  gone: (transaction: string) => `the chain has no transaction ${transaction}`,
  none: (transaction: string) => `transaction ${transaction} does not pay for this call`,
  unpaired: (transaction: string, order: EventOrder | undefined) =>
    `transaction ${transaction} does not have the events of the authorization and the transfer next to each other, in the order event_order = "${order}"`,
  short: (transaction: string) =>
    `transaction ${transaction} transferred less than the amount of the payment`,
};
