import type { IncomingMessage, ServerResponse } from "node:http";
import { startCreation } from "../../../shared/call/call-spans.ts";
import { type JobIds, jobKey } from "../../../shared/call/job-ids.ts";
import { hasInputEnded, onInputEnd } from "../../../shared/http/input-end.ts";
import type { AdmitReceiver } from "../../../shared/ingress/named-receivers.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { CODES } from "../../../shared/platform/errors/codes.ts";
import { createConcurrencyLimit } from "../../../shared/platform/lifecycle/concurrency-limit.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { traceFields } from "../../../shared/platform/text/trace-id.ts";
import { type Clock, msSince, settled } from "../../../shared/platform/time/clock.ts";
import { inSpan } from "../../../shared/platform/traces/tracer.ts";
import { queueOf } from "../../../shared/queue/queue-name.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { AlreadySpent, type NoteSpent } from "../payment/already-spent.ts";
import type { Admitted, PaymentCheck } from "../payment/check.ts";
import type { SignedPayment } from "../payment/header.ts";
import { type Known, type KnownPayments, toOpenOutcome } from "../payment/known-payments.ts";
import { toNewPayment } from "../payment/new-payment.ts";
import { outcomeUnknown, type PaidCall, toPaidCall } from "../payment/outcome.ts";
import type { PaidRequest, PaidRequests } from "../payment/paid-request.ts";
import type { PayersResult } from "../payment/payers-result.ts";
import type { Settler } from "../payment/settle.ts";

type Deps = {
  paidRequests: PaidRequests;
  knownPayments: KnownPayments;
  paymentCheck: PaymentCheck;
  /**
   * Counts a callback receiver that the request names and that only a wildcard in `callback_hosts` allows. A payer may use only a
   * limited number of such receivers.
   */
  admitReceiver: AdmitReceiver;
  settlers: Partitioned<Settler>;
  noteSpent: NoteSpent;
  payersResult: PayersResult;
  bodyBytesMax: number;
  metadataPrefix: string;
  clock: Clock;
  /** Clock of Redis. It decides whether a quote has expired, and dates calls. */
  redisTime: Clock;
  log: Logger;
};

/**
 * A request to the paid route. `PayJob` sets `signed` once it has read the payment, so that the log of a refusal can name the
 * payment.
 */
export type PaymentAttempt = { ids: JobIds; startedAt: number; signed: SignedPayment | undefined };

/**
 * Handles requests with a payment. The methods `answer`, `#pay`, `#payOnce` and `#payNew` call each other in this order. All
 * checks that can refuse a payment before money moves are in `PaymentCheck`.
 */
export class PayJob {
  readonly #deps: Deps;
  /** Limit on the payments that are being claimed and settled at the same time. Each of them has its body in memory. */
  readonly #inFlight;
  /** Claims of this process that are in flight, by the id of the call. */
  readonly #claims = new Map<string, ReturnType<Settler["claim"]>>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#inFlight = createPaymentsInFlight(deps.bodyBytesMax);
  }

  async answer(req: IncomingMessage, res: ServerResponse, attempt: PaymentAttempt): Promise<void> {
    const { paidRequests, payersResult, clock, log } = this.#deps;
    const request = paidRequests.read(req, res, attempt.ids);
    attempt.signed = request.signed;
    const paid = await answerBeforeDisconnect(request, this.#pay(request));

    const access = await payersResult.accessFor(req, paid);
    if (!payersResult.answerLater({ req, res, startedAt: attempt.startedAt }, paid, access))
      payersResult.answerNow(res, paid, access);
    failpoint("x402.after_answer");
    const { addMs } = request;
    const ms = clock() - attempt.startedAt;
    log.info("payment.accepted", { ...fieldsOf(paid), ...(addMs !== undefined && { addMs }), ms });
  }

  /**
   * Pays for a call, and resolves once the outcome is known. If the facilitator's answer leaves it open, the request continues to
   * wait, but without a concurrency slot and without its body in memory.
   */
  async #pay(request: PaidRequest): Promise<PaidCall> {
    const outcome = await this.#payOnce(request).finally(request.release);
    if (outcome.kind === "paid") return outcome.paid;
    const paid = await this.#deps.knownPayments.outcome(outcome, request.isGone);
    refundVerifications(request);
    return paid;
  }

  /**
   * Finds a known payment, or makes a new one. If several requests bring copies of the same payment at once, one of them claims
   * it, in one slot. The others wait for that claim.
   */
  async #payOnce(request: PaidRequest): Promise<Known | Paid> {
    const known = await this.#deps.knownPayments.find(request);
    if (known !== undefined) return known;
    const admitted = await this.#admit(request);
    if (admitted.kind === "known") return admitted;
    for (;;) {
      const earlierClaim = this.#claims.get(admitted.signed.callId);
      if (earlierClaim === undefined) return this.#payNew(request, admitted);
      const claimed = await this.#afterClaim(earlierClaim, request);
      if (claimed !== undefined) return claimed;
    }
  }

  /**
   * Waits for the claim of another request with the same payment. Resolves with the call if it was claimed. Throws the claim's
   * error if that was a server error. Resolves with undefined if the claim was refused. This request may then try its own claim,
   * which can succeed because its caller's proof, quote or identifier may differ.
   */
  async #afterClaim(earlierClaim: Promise<unknown>, request: PaidRequest): Promise<Known | undefined> {
    const { knownPayments } = this.#deps;
    const outcome = await settled(earlierClaim);
    if (outcome.kind === "done" || !isServerError(outcome.error)) return knownPayments.find(request);
    const known = await knownPayments.find(request).catch(() => undefined);
    if (known === undefined) throw outcome.error;
    return known;
  }

  /**
   * Checks a new payment. If a check refuses it, the journal is searched again, because another replica may have claimed the same
   * payment since the first search (docs/decisions.md).
   */
  async #admit(request: PaidRequest): Promise<Admitted | Known> {
    const { knownPayments, paymentCheck, noteSpent } = this.#deps;
    try {
      const admitted = await paymentCheck.check(request);
      await this.#countReceiver(admitted, request.ids);
      return admitted;
    } catch (refusal) {
      const known = await knownPayments.find(request);
      if (known !== undefined) return known;
      if (refusal instanceof AlreadySpent) await noteSpent(request.signed, request.ids, refusal);
      throw refusal;
    }
  }

  /** Counts the callback receiver against the payer's limit, if only a wildcard in `callback_hosts` allows the receiver. */
  async #countReceiver({ callback, signed }: Admitted, ids: JobIds): Promise<void> {
    if (!callback?.byWildcard) return;
    const { callId, payer } = signed;
    await this.#deps.admitReceiver(callId, `payer:${payer}`, jobKey(ids), callback.target.receiver);
  }

  /**
   * Claims and settles a new payment. Resolves with the first outcome that is known: the facilitator's answer, or the one that a
   * reconciler has found on the chain. Even after the latter, the concurrency slot stays in use until the facilitator has
   * answered.
   */
  #payNew(request: PaidRequest, admitted: Admitted): Promise<Known | Paid> {
    return new Promise((resolve, reject) => {
      const paying = this.#inFlight.within(() => this.#claimAndSettle(request, admitted, resolve));
      paying.then(resolve, reject);
    });
  }

  async #claimAndSettle(
    request: PaidRequest,
    admitted: Admitted,
    onDecided: (known: Known) => void,
  ): Promise<Known | Paid> {
    const { settlers, knownPayments, payersResult, metadataPrefix, clock, redisTime } = this.#deps;
    const { req, lease, clientKey } = request;
    const { accessOf } = payersResult;
    const payment = toNewPayment(req, admitted, { metadataPrefix, accessOf, now: redisTime() });
    const { id } = payment.call;
    const settler = settlers.of(id);
    const startedAt = performance.now();
    const span = startCreation("create", payment.call, queueOf(payment.call));
    const claiming = inSpan(span, () => settler.claim(payment, clientKey));
    this.#claims.set(id, claiming);
    const claimed = await settled(claiming).finally(() => this.#claims.delete(id));
    if (claimed.kind === "failed") {
      if (isJournalFailure(claimed.error)) refundVerifications(request);
      return { kind: "known", id, open: toOpenOutcome(claimed.error, clock()) };
    }
    if (claimed.result.kind === "known") return claimed.result;
    request.addMs = msSince(startedAt);
    // The body must not count as verified before the claim: a client can send a thousand copies of one payment, and only one of
    // them is claimed.
    lease.markVerified();
    const sentAt = clock();
    const settling = settler.settle(payment, claimed.result.ageMs);
    const own = { kind: "known", id, isFirst: true } as const;
    void knownPayments.untilDecided(id, settling).then((decided) => {
      if (decided !== undefined) onDecided(own);
    });
    const outcome = await settled(settling);
    if (outcome.kind === "failed") return { ...own, open: toOpenOutcome(outcome.error, sentAt) };
    refundVerifications(request);
    return { kind: "paid", paid: toPaidCall(outcome.result, { replayed: false, isFirst: true }) };
  }
}

type Paid = { kind: "paid"; paid: PaidCall };

function refundVerifications({ verificationRefunds }: PaidRequest): void {
  for (const release of verificationRefunds) release();
}

/**
 * A client that has ended its side of the connection gets an answer within this time. The server destroys the connection a little
 * later.
 */
const ANSWER_WITHIN_MS = 8000;

/**
 * Makes sure that a client that ends its side of the connection still gets an answer before the server destroys the connection.
 * Resolves like `work`. But `ANSWER_WITHIN_MS` after the client has ended its side, it rejects with an unknown outcome, and the
 * work continues without the client.
 */
async function answerBeforeDisconnect<Result>(
  { req, signed: { callId } }: PaidRequest,
  work: Promise<Result>,
): Promise<Result> {
  if (callId === undefined) return work;
  let timer: NodeJS.Timeout | undefined;
  let stopListening = () => {};
  const late = new Promise<never>((_, reject) => {
    const begin = () => {
      const rejectLate = () =>
        reject(outcomeUnknown(callId, "its client has closed its side of the connection"));
      timer = setTimeout(rejectLate, ANSWER_WITHIN_MS);
    };
    if (hasInputEnded(req)) begin();
    else stopListening = onInputEnd(req, begin);
  });
  return Promise.race([work, late]).finally(() => {
    clearTimeout(timer);
    stopListening();
  });
}

/** Limit on the total size of all bodies whose payments are being claimed and settled. */
const IN_FLIGHT_BYTES_MAX = 1024 ** 3;

function createPaymentsInFlight(bodyBytesMax: number) {
  const bodiesMax = Math.floor(IN_FLIGHT_BYTES_MAX / Math.max(1, bodyBytesMax));
  const max = Math.max(16, Math.min(1024, bodiesMax));
  return createConcurrencyLimit({ max, what: "payments", code: "payment.unavailable" });
}

function isServerError(refusal: unknown): boolean {
  return CODES[toAppError(refusal).code].status >= 500;
}

/**
 * Whether a claim failed because of a fault of the journal. `payment.unavailable` is no such fault: it has other causes, such as
 * too many unsettled payments.
 */
function isJournalFailure(refusal: unknown): boolean {
  return isServerError(refusal) && toAppError(refusal).code !== "payment.unavailable";
}

function fieldsOf({ id: callId, terms, replayed, settlement, traceparent }: PaidCall) {
  return {
    callId,
    serviceId: terms.service_id,
    jobIndex: terms.job_index,
    payer: terms.payer,
    amount: terms.amount,
    symbol: terms.symbol,
    transaction: settlement.transaction,
    replayed,
    ...traceFields(traceparent),
  };
}
