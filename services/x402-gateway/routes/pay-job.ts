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
import { answerPaid, outcomeUnknown, type PaidCall, toPaidCall } from "../payment/outcome.ts";
import type { PaidRequest, PaidRequests } from "../payment/paid-request.ts";
import type { PayersResult } from "../payment/payers-result.ts";
import type { Settler } from "../payment/settle.ts";

type Deps = {
  paidRequests: PaidRequests;
  knownPayments: KnownPayments;
  paymentCheck: PaymentCheck;
  /** Counts a receiver that a request names by a wildcard. */
  admitReceiver: AdmitReceiver;
  settlers: Partitioned<Settler>;
  noteSpent: NoteSpent;
  statusUrlOf: (callId: string) => string;
  payersResult: PayersResult;
  bodyBytesMax: number;
  metadataPrefix: string;
  clock: Clock;
  /** Redis', by which quotes are made and judged, and calls are dated. */
  redisTime: Clock;
  log: Logger;
};

/** A request to the paid route. `PayJob` adds the payment once it is read, so that the log of a refusal can name it. */
export type PaymentAttempt = { ids: JobIds; startedAt: number; signed: SignedPayment | undefined };

/**
 * One request with a payment: `answer`, `#pay`, `#payOnce` and `#payNew` are its line, and `PaymentCheck` has everything that can
 * refuse it, before money moves.
 */
export class PayJob {
  readonly #deps: Deps;
  /** How many payments may be claimed and settled at a time, each with its body in memory. */
  readonly #inFlight;
  /** The claims that are under way here, by call. */
  readonly #claims = new Map<string, ReturnType<Settler["claim"]>>();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#inFlight = createPaymentsInFlight(deps.bodyBytesMax);
  }

  async answer(req: IncomingMessage, res: ServerResponse, attempt: PaymentAttempt): Promise<void> {
    const { paidRequests, payersResult, statusUrlOf, clock, log } = this.#deps;
    const request = paidRequests.read(req, res, attempt.ids);
    attempt.signed = request.signed;
    const paid = await beforeItsEnd(request, this.#pay(request));

    const access = await payersResult.accessFor(req, paid);
    if (!payersResult.answerLater({ req, res, startedAt: attempt.startedAt }, paid, access))
      answerPaid(res, paid, statusUrlOf(paid.id), access);
    failpoint("x402.after_answer");
    const { addMs } = request;
    const ms = clock() - attempt.startedAt;
    log.info("payment.accepted", { ...fieldsOf(paid), ...(addMs !== undefined && { addMs }), ms });
  }

  /** A request that waits for an unknown outcome holds no place and no body. */
  async #pay(request: PaidRequest): Promise<PaidCall> {
    const outcome = await this.#payOnce(request).finally(request.release);
    if (outcome.kind === "paid") return outcome.paid;
    const paid = await this.#deps.knownPayments.outcome(outcome, request.isGone);
    giveVerifiesBack(request);
    return paid;
  }

  /** Copies of a payment that come at once wait for one claim, and take one place. */
  async #payOnce(request: PaidRequest): Promise<Known | Paid> {
    const known = await this.#deps.knownPayments.find(request);
    if (known !== undefined) return known;
    const admitted = await this.#admit(request);
    if (admitted.kind === "known") return admitted;
    for (;;) {
      const ahead = this.#claims.get(admitted.signed.callId);
      if (ahead === undefined) return this.#payNew(request, admitted);
      const claimed = await this.#afterClaim(ahead, request);
      if (claimed !== undefined) return claimed;
    }
  }

  /**
   * What a copy's claim makes of this request: its call, or our failure. Undefined if the claim was refused: it may have come with
   * another caller's proof, quote or identifier.
   */
  async #afterClaim(ahead: Promise<unknown>, request: PaidRequest): Promise<Known | undefined> {
    const { knownPayments } = this.#deps;
    const outcome = await settled(ahead);
    if (outcome.kind === "done" || !isOurFault(outcome.error)) return knownPayments.find(request);
    const known = await knownPayments.find(request).catch(() => undefined);
    if (known === undefined) throw outcome.error;
    return known;
  }

  /** Looks twice before it refuses: another replica may have claimed the same payment meanwhile (docs/decisions.md). */
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

  /** A receiver that a request names by a wildcard counts for its payer. */
  async #countReceiver({ callback, signed }: Admitted, ids: JobIds): Promise<void> {
    if (!callback?.byWildcard) return;
    const { callId, payer } = signed;
    await this.#deps.admitReceiver(callId, `payer:${payer}`, jobKey(ids), callback.target.receiver);
  }

  /** Resolves with the first outcome. The place is held until the facilitator has answered: it still settles the payment. */
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
      if (isJournalsFault(claimed.error)) giveVerifiesBack(request);
      return { kind: "known", id, open: toOpenOutcome(claimed.error, clock()) };
    }
    if (claimed.result.kind === "known") return claimed.result;
    request.addMs = msSince(startedAt);
    lease.prove(); // anybody can sign a payment, and send it a thousand times; this one is to be settled
    const since = clock();
    const settling = settler.settle(payment, claimed.result.ageMs);
    const own = { kind: "known", id, isFirst: true } as const;
    void knownPayments.untilDecided(id, settling).then((decided) => {
      if (decided !== undefined) onDecided(own);
    });
    const outcome = await settled(settling);
    if (outcome.kind === "failed") return { ...own, open: toOpenOutcome(outcome.error, since) };
    giveVerifiesBack(request);
    return { kind: "paid", paid: toPaidCall(outcome.result, { replayed: false, isFirst: true }) };
  }
}

type Paid = { kind: "paid"; paid: PaidCall };

function giveVerifiesBack({ verifiesTaken }: PaidRequest): void {
  for (const release of verifiesTaken) release();
}

/** Less than a connection has after its client has ended its side. */
const ANSWERED_IN_MS = 8000;

/**
 * What the work on a payment comes to. If the client has ended its side, it is told after a while that the outcome is unknown, before its
 * connection is destroyed; the work goes on.
 */
async function beforeItsEnd<Result>(
  { req, signed: { callId } }: PaidRequest,
  work: Promise<Result>,
): Promise<Result> {
  if (callId === undefined) return work;
  let timer: NodeJS.Timeout | undefined;
  let stopListening = () => {};
  const late = new Promise<never>((_, reject) => {
    const begin = () => {
      const tell = () => reject(outcomeUnknown(callId, "its client has closed its side of the connection"));
      timer = setTimeout(tell, ANSWERED_IN_MS);
    };
    if (hasInputEnded(req)) begin();
    else stopListening = onInputEnd(req, begin);
  });
  return Promise.race([work, late]).finally(() => {
    clearTimeout(timer);
    stopListening();
  });
}

/** All bodies of payments that are claimed and settled stay under this together. */
const IN_FLIGHT_BYTES_MAX = 1024 ** 3;

function createPaymentsInFlight(bodyBytesMax: number) {
  const bodiesMax = Math.floor(IN_FLIGHT_BYTES_MAX / Math.max(1, bodyBytesMax));
  const max = Math.max(16, Math.min(1024, bodiesMax));
  return createConcurrencyLimit({ max, what: "payments", code: "payment.unavailable" });
}

function isOurFault(refusal: unknown): boolean {
  return CODES[toAppError(refusal).code].status >= 500;
}

/** A full house is not: it is refused to those who have filled it. */
function isJournalsFault(refusal: unknown): boolean {
  return isOurFault(refusal) && toAppError(refusal).code !== "payment.unavailable";
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
