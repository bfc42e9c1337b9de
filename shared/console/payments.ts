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
import { fromCursor, next, type PageAsked, toCursor } from "./cursor.ts";
import { PAYMENT_STATE_VIEWS } from "./payment-states.ts";
import { type PaymentDetail, PaymentView, toPaymentDetail, toPaymentView } from "./payment-view.ts";
import { createInFlight, createReconcile, type InFlightPage, type Reconciled } from "./reconcile.ts";
import { createListSpentElsewhere, type ListSpentElsewhere } from "./spent-elsewhere.ts";
import { decimalsFrom, type TokenSource } from "./tokens.ts";
import { askedMs, askedTime, reason } from "./view.ts";

const CALL_HEAD = defineScript({ source: callHeadLua, keys: "payment", proof: "reads", reply: text });

/** Selects payments that meet every field present. The times are when a payment was claimed, both inclusive. */
export const PaymentFilter = z.strictObject({
  state: z.enum(PAYMENT_STATE_VIEWS).optional(),
  payer: payer.optional(),
  since: askedTime.optional(),
  until: askedTime.optional(),
  /** Not in a final state. */
  open: z.boolean().optional(),
  /** Contradicted by evidence, although it counts as paid, and no operator has seen that. */
  disputed: z.boolean().optional(),
  /** Contradicted by evidence, although it counts as paid, and an operator has acknowledged that. */
  acknowledged: z.boolean().optional(),
});
export type PaymentFilter = z.infer<typeof PaymentFilter>;

/** An operator's decision about a payment. */
export const Decision = z
  .discriminatedUnion("verdict", [
    /** The money is there: its call runs. */
    z.strictObject({ verdict: z.literal("settled"), transaction, reason }).meta({ id: "SettledDecision" }),
    /** It was not paid, and is not going to be: its body is deleted. */
    z.strictObject({ verdict: z.literal("void"), reason }).meta({ id: "VoidDecision" }),
    /** Of a disputed one: it was seen. */
    z.strictObject({ verdict: z.literal("acknowledged"), reason }).meta({ id: "AcknowledgedDecision" }),
    /** Of one that is settling or in review: its body is deleted and no settle is sent. Money that comes all the same is due back. */
    z.strictObject({ verdict: z.literal("dropped"), reason }).meta({ id: "DroppedDecision" }),
  ])
  .meta({ id: "Decision" });
export type Decision = z.infer<typeof Decision>;

export const PaymentPage = z.object({
  payments: z.array(PaymentView),
  /** With it even a page without payments is not the last: an answer looks at so many payments and no more. */
  next,
});
export type PaymentPage = z.infer<typeof PaymentPage>;

export const PaymentPlace = z.strictObject({ at: z.number(), id: z.string().regex(CALL_ID) });

export type PaymentsApi = {
  /** The newest first. */
  page(filter: PaymentFilter, page: PageAsked): Promise<PaymentPage>;
  /** Throws `payment.unknown`. */
  show(id: string): Promise<PaymentDetail>;
  /**
   * Throws `payment.unknown`; `payment.undecidable` if its state does not allow the decision; `payment.not_shown` if the chain does not show
   * the transaction as its payment; `payment.transfer_taken` if that pays for another call.
   */
  resolve(id: string, decide: Decision): Promise<void>;
  /** Makes the payment due, and waits at most so long until a gateway has looked at it. */
  reconcile(id: string, waitMs: number): Promise<Reconciled>;
  /**
   * The payments that gateways look after, except those whose call a producer has, or that has failed; first those that are looked at
   * soonest. With `next` even a page without payments is not the last.
   */
  inFlight(page: PageAsked): Promise<InFlightPage>;
  spentElsewhere: ListSpentElsewhere;
};

type Deps = OperatorDeps & {
  tokens: TokenSource;
  /** Whether what is settled by an operator counts as earned (shared/telemetry/series). */
  countsEarned: boolean;
};

/** What an operator sees of payments, and decides about them, with a line in the audit. */
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
        look: (id: string) => journal.look(id),
        lookWhole: createLookWhole(partition, journal),
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
      const payment = await own.look(id);
      if (payment === undefined) throw unknownPayment(id);
      const asked =
        decision.verdict === "settled"
          ? await settledBy(tokens, payment, decision.transaction)
          : { kind: decision.verdict };
      const resolved = await own.decide(id, payment, asked, decision.reason);
      if (resolved.kind === "left") throw whyLeft(payment, asked, resolved.state);
    },
  };
}

/** Reads a payment, and the content type of its body as long as that is kept. */
function createLookWhole({ redis, keys }: Partition, journal: PaymentJournal) {
  const callHead = CALL_HEAD.on(redis);
  return async (id: string): Promise<[Payment | undefined, string | undefined]> => {
    const [payment, head] = await Promise.all([journal.look(id), callHead({ payment: keys.payment(id) })]);
    const { content_type } = head === "" ? {} : (JSON.parse(head) as { content_type?: string });
    return [payment, content_type];
  };
}

/** Says that an id is not in the journal. */
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

function whyLeft({ id, decided, acknowledged }: Payment, verdict: Verdict, state: FoundState): AppError {
  if (state === TRANSFER_TAKEN) {
    const transaction = verdict.kind === "settled" ? verdict.transaction : "";
    const detail = `the transfer in transaction ${transaction} pays for another call; nothing was changed`;
    return AppError.public("payment.transfer_taken", detail);
  }
  const isAcknowledged = verdict.kind === "acknowledged";
  const which = ONLY[verdict.kind];
  const left = `${id} is ${state?.toLowerCase() ?? "gone"}: ${which}; nothing was changed`;
  // An earlier decision may have died before its line in the audit.
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

/** Asks the chain for the transfer, unless the token has no node to ask. Throws what it shows instead. */
async function settledBy(tokens: TokenSource, { id, terms }: Payment, transaction: string): Promise<Verdict> {
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
