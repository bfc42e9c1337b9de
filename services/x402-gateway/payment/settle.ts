import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { ResultAccess } from "../../../shared/gateway/ask-result.ts";
import type { CallbackAsked } from "../../../shared/gateway/read-callback.ts";
import { traceparentOf } from "../../../shared/http/headers.ts";
import { networksOf } from "../../../shared/ip/address.ts";
import type { Callback } from "../../../shared/job-call/callback.ts";
import {
  type JobCall,
  platformKeys,
  storedBytes,
  toJobCall,
  X402_PAYER,
} from "../../../shared/job-call/job-call.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { Found, PaymentJournal } from "../../../shared/payments/journal.ts";
import {
  type FacilitatorRequest,
  type NewPayment,
  type Payment,
  type PaymentTerms,
  type SettledPayment,
  type Settlement,
  settledFields,
  toAuthorization,
  toSettlement,
} from "../../../shared/payments/payment.ts";
import { CALL_DROPPED, type Claimed, TRANSFER_TAKEN } from "../../../shared/payments/scripts.ts";
import { extraMs } from "../../../shared/redis/large.ts";
import type { BeginWrite, Lane } from "../../../shared/redis/retry-write.ts";
import { type Clock, delay } from "../../../shared/time/clock.ts";
import { type Job, jobPath } from "../catalog.ts";
import type { PaymentChain, Since } from "../chains.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { AuthorizedCaller } from "../policy/caller.ts";
import type { AcceptedPayment } from "./header.ts";
import type { MatchedOffer } from "./offer.ts";
import { toQuoteUse } from "./operator-quote.ts";
import { outcomeUnknown, refusedClaim } from "./outcome.ts";
import type { Verified } from "./unpaid-verifies.ts";

/** The reconciler looks at a payment this soon after its claim, in case the request that claimed it has died. */
const FIRST_LOOK_MS = 3000;

type ClaimDeps = {
  journal: PaymentJournal;
  beginWrite: BeginWrite;
  openMax: number;
  /** Limit on the bytes of all unsettled payments. */
  unsettledBytesMax: () => number;
  clock: Clock;
};

/** What became of a claim. A new one was written no longer than `ageMs` ago. */
type ClaimedNow = { kind: "new"; ageMs: number } | { kind: "known"; id: string };

export type ClaimPayment = ReturnType<typeof createClaimPayment>;

/**
 * Writes the whole call to disk before money moves, or tells that the payment was known before. `party` is the rate-limit key of the
 * client's address. Throws the error of a refused claim, and `payment.outcome_unknown` if the claim may be on disk: then any replica goes
 * on with it.
 */
export function createClaimPayment(deps: ClaimDeps) {
  const { journal, beginWrite, openMax, unsettledBytesMax, clock } = deps;

  return async function claim(payment: NewPayment, party: string): Promise<ClaimedNow> {
    const by = randomUUID();
    const clients = networksOf(party);
    const bytes = storedBytes(payment.call);
    const write = beginWrite(bytes);
    const dueInMs = FIRST_LOOK_MS + extraMs(bytes);
    const attempt = async (lane: Lane): Promise<Claimed> => {
      const sentAt = clock();
      const limits = { openMax, clients, unsettledBytesMax: unsettledBytesMax() };
      const claimed = await journal.claim(payment, { by, dueInMs, ...limits }, lane);
      // The reply may have been long on its way.
      return claimed.kind === "new" ? { ...claimed, ageMs: claimed.ageMs + clock() - sentAt } : claimed;
    };
    const claimed = await write(attempt, bytes).catch((cause) => {
      throw isUnknown(cause)
        ? outcomeUnknown(payment.call.id, "whether the payment was claimed is unknown", cause)
        : cause;
    });
    failpoint("x402.after_claim");
    if (claimed.kind === "new" || claimed.kind === "known") return claimed;
    throw refusedClaim(claimed.kind);
  };
}

function isUnknown(error: unknown): boolean {
  return error instanceof AppError && error.code === "queue.outcome_unknown";
}

type SettleDeps = {
  journal: PaymentJournal;
  facilitators: Facilitators;
  enqueueSettled: EnqueueSettled;
  beginWrite: BeginWrite;
  confirmSettlement: ConfirmSettlement;
  chainOf: (payment: Payment) => PaymentChain;
  /** So long after the claim no settle is sent any more: the payer may have bought anew by then. */
  maxTimeoutMs: number;
  clock: Clock;
  log: Logger;
};

export type Settle = ReturnType<typeof createSettle>;

/**
 * Sends the settle request of a claimed payment, and does all that follows from its answer. From here on only proof that no
 * money moved refuses: without a chain to ask, the facilitator's refusal. What is not known is said to be unknown.
 */
export function createSettle(deps: SettleDeps) {
  const { journal, facilitators, confirmSettlement, enqueueSettled, beginWrite, chainOf } = deps;
  const { maxTimeoutMs, clock, log } = deps;

  /** Only success is an answer: nothing else that is said proves anything, unless the facilitator is trusted. */
  async function askToSettle(payment: Payment, request: FacilitatorRequest): Promise<Settlement> {
    const startedAt = clock();
    const answer = await facilitators.settle(request, payment.facilitator);
    failpoint("x402.after_settle");
    const fields = { callId: payment.id, outcome: answer.kind, ms: clock() - startedAt };
    if (answer.kind === "settled") {
      log.info("payment.settle_answered", fields);
      const settlement = await confirmSettlement(payment, answer.transaction);
      if (settlement !== undefined) return settlement;
      await journal.lookAgain(payment.id, 0).catch(() => {});
      throw outcomeUnknown(payment.id, `the chain does not show transaction ${answer.transaction} yet`);
    }
    log.warn("payment.settle_answered", { ...fields, reason: answer.reason });
    if (answer.kind === "refused" && chainOf(payment) === "trusted") await endRefused(payment, answer.reason);
    await journal.lookAgain(payment.id, 0).catch(() => {});
    throw outcomeUnknown(payment.id, `the facilitator's answer was ${answer.kind}: ${answer.reason}`);
  }

  /**
   * If the facilitator's word is the last: 402, but only once the end is on disk. It is not the last if a reconciler has sent
   * the payment again meanwhile: that request may have settled it, and so be why this one was refused.
   */
  async function endRefused(payment: Payment, reason: string): Promise<void> {
    const write = beginWrite();
    const { dispatches } = payment;
    const ended = write(() => journal.markVoid(payment, { reason, dispatches }, { now: clock() }));
    const found = await ended.catch((cause) => {
      throw outcomeUnknown(payment.id, "the facilitator refused, and that could not be written down", cause);
    });
    if (found !== "SETTLING" && found !== "VOID") return;
    throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
  }

  /** The payment was claimed `ageMs` ago. */
  return async function settle(payment: NewPayment, ageMs: number): Promise<SettledPayment> {
    const claimed = toSettling(payment, ageMs);
    if (ageMs >= maxTimeoutMs || hasEnded(claimed, clock()))
      throw outcomeUnknown(claimed.id, "its claim took so long that no settle was sent");
    const settlement = await askToSettle(claimed, payment.request);
    try {
      if (!(await enqueueSettled(claimed, settlement))) throw new Error("it was ended otherwise meanwhile");
      return { ...claimed, state: "QUEUED", settlement };
    } catch (cause) {
      await journal.lookAgain(claimed.id, 0).catch(() => {});
      throw outcomeUnknown(claimed.id, "the payment settled, and its call is still to be queued", cause);
    }
  };
}

/** Whether no settle request is sent any more: the authorization has ended, or its payer may have bought again. `now` is by the process's clock. */
export function isTooLate(payment: Payment, now: number, maxTimeoutMs: number): boolean {
  return payment.readAt - payment.claimedAt >= maxTimeoutMs || hasEnded(payment, now);
}

/**
 * Whether the authorization has ended so long ago, where no chain is asked. Both the process's clock (`now`) and Redis' must say so: a
 * replica that is ahead would give up a payment that the others can still settle, and Redis' clock alone must not decide it.
 */
export function hasEnded({ terms, readAt }: Payment, now: number, agoMs = 0): boolean {
  return Math.min(now, readAt) >= Number(terms.valid_before) * 1000 + agoMs;
}

/** The payment as its claim has just made it, `ageMs` ago. */
function toSettling(payment: NewPayment, ageMs: number): Payment {
  const { call, terms, request, facilitator, sinceBlock, route, callerNonce } = payment;
  const { identifier, idempotencyKey, signedSha256 } = payment;
  return {
    id: call.id,
    state: "SETTLING",
    terms,
    call,
    callBytes: storedBytes(call),
    request,
    facilitator,
    sinceBlock,
    searched: undefined,
    dispatches: 1,
    dispatchedAt: call.accepted_at,
    claimedAt: call.accepted_at,
    readAt: call.accepted_at + ageMs,
    changedAt: call.accepted_at,
    settlement: undefined,
    proven: false,
    reason: undefined,
    identifier,
    idempotencyKey,
    signedSha256,
    callerNonce: callerNonce?.hash,
    bodySha256: call.sha256,
    route,
    keepsResult: call.keep_result === true,
    effect: "none",
    refund: undefined,
    refunded: undefined,
    lateAt: undefined,
  };
}

/** Mostly the receipt is there at once, and a block later at the most. What comes later is the reconciler's. */
const RECEIPT_MS_MAX = 5000;
const RECEIPT_EVERY_MS = { least: 100, most: 1000 };

type ConfirmDeps = { chainOf: (payment: Payment) => PaymentChain; clock: Clock };

export type ConfirmSettlement = ReturnType<typeof createConfirmSettlement>;

/**
 * The settlement in the transaction that the facilitator has named, once its receipt shows that it pays this call. Undefined if it does
 * not in time, or shows something else: a token may let a used nonce pass without a transfer, and a facilitator may be wrong.
 */
export function createConfirmSettlement({ chainOf, clock }: ConfirmDeps) {
  return async function confirm(payment: Payment, transaction: string): Promise<Settlement | undefined> {
    const its = chainOf(payment);
    const known = { transaction, by: "facilitator" } as const;
    if (typeof its === "string" || !its.wantsReceipt) return toSettlement(payment, known);
    const authorization = toAuthorization(payment.terms, its.eventOrder);
    const deadline = clock() + RECEIPT_MS_MAX;
    for (let pauseMs = RECEIPT_EVERY_MS.least; ; pauseMs = Math.min(2 * pauseMs, RECEIPT_EVERY_MS.most)) {
      const proof = await its.chain
        .proofOf(transaction as `0x${string}`, authorization)
        .catch(() => undefined);
      if (proof?.kind === "paid" && proof.block >= payment.sinceBlock)
        return toSettlement(payment, { ...known, position: proof.position });
      if (proof !== undefined || clock() >= deadline) return undefined;
      await delay(pauseMs);
    }
  };
}

/** How long after queueing the chain is asked: early enough to settle a payment again if its transaction has vanished. */
const PROVE_AFTER_MS = 30_000;

type ReviewDeps = { journal: PaymentJournal; log: Logger };

export type Review = ReturnType<typeof createReview>;

/** Leaves a payment to an operator, since the evidence does not say what became of it. */
export function createReview({ journal, log }: ReviewDeps) {
  return async function review(id: string, reason: string): Promise<void> {
    await journal.markForReview(id, reason);
    log.error("payment.in_review", { callId: id, reason });
  };
}

/** Why a transfer proves nothing of a payment although it is exactly the one. */
export function paysForAnother({ transaction, position }: Settlement): string {
  return `transfer ${position} of transaction ${transaction} pays for another call`;
}

type EnqueueDeps = {
  journal: PaymentJournal;
  beginWrite: BeginWrite;
  review: Review;
  log: Logger;
};

export type EnqueueSettled = ReturnType<typeof createEnqueueSettled>;

/** What is found of a payment that has no call in a queue, and gets none. */
const ENDED_OTHERWISE: readonly Found[] = ["VOID", "REVIEW", "DISCARDED", CALL_DROPPED];

/**
 * Records a settlement and brings the call into its queue, in one step, for the request that settled or the reconciler of any
 * replica. It may be done again and by several at once. False if the payment has ended otherwise: VOID, in REVIEW, or DISCARDED.
 */
export function createEnqueueSettled({ journal, beginWrite, review, log }: EnqueueDeps) {
  return async function enqueueSettled(payment: Payment, settlement: Settlement): Promise<boolean> {
    const { callBytes } = payment;
    const known = { settlement, proven: settlement.by === "chain" };
    const due = { dueInMs: PROVE_AFTER_MS };
    const found = await beginWrite(callBytes)(
      (lane) => journal.enqueueSettled(payment, known, due, lane),
      callBytes,
    );
    failpoint("x402.after_queued");
    if (found === TRANSFER_TAKEN) {
      await review(payment.id, paysForAnother(settlement));
      return false;
    }
    if (found === "SETTLING" || found === CALL_DROPPED)
      log.info("payment.settled", settledFields(payment, settlement));
    if (found === CALL_DROPPED) log.warn("payment.refund_due", { callId: payment.id });
    return found !== undefined && !ENDED_OTHERWISE.includes(found);
  };
}

/** A new payment that nothing refuses, and what was found out on the way. */
export type Admitted = {
  kind: "admitted";
  signed: AcceptedPayment;
  job: Job;
  offer: MatchedOffer;
  body: Buffer;
  caller: AuthorizedCaller | undefined;
  /** Who is told of the call's end. */
  callback: CallbackAsked | undefined;
  verified: Verified;
  since: Since;
};

type Circumstances = {
  metadataPrefix: string;
  /** How the receiver of a callback asks for the result. */
  accessOf: (callId: string) => ResultAccess;
  now: number;
};

/** What the claim writes before money moves. */
export function toNewPayment(
  req: IncomingMessage,
  { signed, job, offer, body, caller, callback, verified, since }: Admitted,
  { metadataPrefix, accessOf, now }: Circumstances,
): NewPayment {
  const { token, decoded, payer, callId } = signed;
  const { authorization, version, identifier, idempotencyKey } = decoded;
  const terms = {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    pay_to: token.payTo,
    payer,
    nonce: authorization.nonce.toLowerCase(),
    amount: offer.amount,
    valid_after: String(authorization.validAfter),
    valid_before: String(authorization.validBefore),
    quote_digest: offer.digest,
    x402_version: version,
    transfer_method: token.method,
    body_bytes: body.length,
  };
  const keepsResult = job.keepsResult !== false;
  const call = toUnsettledCall({
    id: callId,
    terms,
    caller: caller?.address,
    metadataPrefix,
    contentType: req.headers["content-type"],
    body,
    bodySha256: sha256Hex(body),
    acceptedAt: now,
    traceparent: traceparentOf(req),
    keepsResult,
    callback: callback && { ...callback.target, ...(keepsResult && accessOf(callId)) },
  });
  return {
    call,
    terms,
    request: offer.request,
    facilitator: verified.facilitator,
    sinceBlock: since.block,
    route: jobPath(job),
    identifier,
    idempotencyKey,
    signedSha256: signed.signedSha256,
    callerNonce: caller?.nonce,
    quoteUse: job.operatorQuote && toQuoteUse(job.operatorQuote),
  };
}

type UnsettledCallOptions = {
  id: string;
  terms: PaymentTerms;
  /** Of a restricted job. */
  caller: string | undefined;
  metadataPrefix: string;
  contentType: string | undefined;
  body: Buffer;
  bodySha256: string;
  acceptedAt: number;
  traceparent: string | undefined;
  keepsResult: boolean;
  callback: Callback | undefined;
};

/** The call as the claim writes it before money moves. It lacks only the transaction, which is put in as it is queued. */
function toUnsettledCall(options: UnsettledCallOptions): JobCall {
  const { id, terms, caller, metadataPrefix, acceptedAt, ...rest } = options;
  const keys = platformKeys(metadataPrefix);
  const metadata = {
    [keys.serviceId]: String(terms.service_id),
    [keys.callId]: id,
    "X-X402-ORIGIN": "x402",
    "X-X402-QUOTE-DIGEST": terms.quote_digest,
    "X-X402-PAYMENT-NETWORK": terms.network,
    "X-X402-PAYMENT-TOKEN": terms.symbol,
    [X402_PAYER]: terms.payer,
    "X-X402-AMOUNT": terms.amount,
    ...(caller !== undefined && { [keys.caller]: caller }),
  };
  return toJobCall({
    id,
    origin: "x402",
    service_id: terms.service_id,
    job_id: terms.job_index,
    metadata,
    accepted_at: acceptedAt,
    ...rest,
  });
}
