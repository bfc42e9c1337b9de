import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError, messageOf } from "../../../shared/errors/app-error.ts";
import type { Admission } from "../../../shared/gateway/admission.ts";
import { readBody } from "../../../shared/http/body.ts";
import type { BodyBudget, BodyLease } from "../../../shared/http/body-budget.ts";
import { codingUnsupported, contentCoding } from "../../../shared/http/content-coding.ts";
import { traceparentOf } from "../../../shared/http/headers.ts";
import { type JobIds, jobKey } from "../../../shared/job-call/job-ids.ts";
import type { ConcurrencyLimit } from "../../../shared/lifecycle/concurrency-limit.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { FacilitatorRequest, NewPayment } from "../../../shared/payments/payment.ts";
import type { SpentElsewhereList } from "../../../shared/payments/spent-elsewhere.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { type Catalog, type Job, jobPath, type RequestedJob } from "../catalog.ts";
import { AlreadySpent, type SinceOf } from "../chains.ts";
import type { VerifyPayment } from "../facilitator/pool.ts";
import {
  type AcceptedPayment,
  identifyPayment,
  inAcceptedToken,
  readPayment,
  type SignedPayment,
} from "../payment/header.ts";
import { type MatchedOffer, matchOffer, type OfferSettings } from "../payment/offer.ts";
import { assertInputs, assertRequester, toQuoteUse } from "../payment/operator-quote.ts";
import { answerPaid, type KnownOutcome, type PaidCall, toPaidCall } from "../payment/outcome.ts";
import { type ClaimPayment, type Settle, toUnsettledCall } from "../payment/settle.ts";
import type { AuthorizeCaller, AuthorizedCaller } from "../policy/caller.ts";

type PayJobDeps = {
  readPaidRequest: ReadPaidRequest;
  findKnown: FindKnown;
  knownOutcome: KnownOutcome;
  /** How many new payments may be under way, each with its body in memory. */
  paymentsInFlight: ConcurrencyLimit;
  check: CheckPayment;
  claim: ClaimPayment;
  settle: Settle;
  spentElsewhere: SpentElsewhereList;
  statusUrlOf: (callId: string) => string;
  metadataPrefix: string;
  clock: Clock;
  log: Logger;
};

/** A request to the paid route. `payJob` adds the payment once it is read, so that the log of a refusal can name it. */
export type PaymentAttempt = { ids: JobIds; startedAt: number; signed: SignedPayment | undefined };

export type PayJob = ReturnType<typeof createPayJob>;

/**
 * One request with a payment: `payJob` and `payNew` are its line, and `check` below has everything that can refuse it, before
 * money moves.
 */
export function createPayJob(deps: PayJobDeps) {
  const { readPaidRequest, findKnown, knownOutcome, paymentsInFlight, check, claim, settle } = deps;
  const { spentElsewhere, statusUrlOf, metadataPrefix, clock, log } = deps;

  return async function payJob(
    req: IncomingMessage,
    res: ServerResponse,
    attempt: PaymentAttempt,
  ): Promise<void> {
    const request = readPaidRequest(req, res, attempt.ids);
    attempt.signed = request.signed;
    const paid = await pay(req, request).finally(() => request.lease.release());

    answerPaid(res, paid, statusUrlOf(paid.id));
    failpoint("x402.after_answer");
    log.info("payment.accepted", { ...fieldsOf(paid), ms: clock() - attempt.startedAt });
  };

  async function pay(req: IncomingMessage, request: PaidRequest): Promise<PaidCall> {
    const knownId = await findKnown(request);
    if (knownId !== undefined) return knownOutcome(knownId);
    return paymentsInFlight.within(() => payNew(req, request));
  }

  async function payNew(req: IncomingMessage, request: PaidRequest): Promise<PaidCall> {
    const admitted = await admit(req, request);
    if (admitted.kind === "known") return knownOutcome(admitted.id);
    const payment = toNewPayment(req, admitted, metadataPrefix, clock());
    const claimed = await claim(payment);
    if (claimed.kind === "known") return knownOutcome(claimed.id);
    const settled = await settle(payment);
    return toPaidCall(settled, { replayed: false });
  }

  /** Looks twice before it refuses: another replica may have claimed the same payment meanwhile (docs/decisions.md). */
  async function admit(req: IncomingMessage, request: PaidRequest): Promise<Admitted | Known> {
    try {
      return await check(req, request);
    } catch (refusal) {
      const id = await findKnown(request);
      if (id !== undefined) return { kind: "known", id };
      if (refusal instanceof AlreadySpent) await noteSpent(request, refusal);
      throw refusal;
    }
  }

  /** For the operator: it may be that the payer has paid, and somebody else has sent the payment. */
  async function noteSpent({ signed, ids }: PaidRequest, { block }: AlreadySpent): Promise<void> {
    const { callId: id, payer, decoded, token } = inAcceptedToken(signed);
    const { nonce, value, validAfter, validBefore } = decoded.authorization;
    const { network, asset, symbol, payTo: pay_to } = token;
    await spentElsewhere
      .note({
        id,
        at: clock(),
        service_id: ids.serviceId,
        job_index: ids.jobIndex,
        ...{ network, asset, symbol, pay_to, payer, nonce: nonce.toLowerCase() },
        amount: String(value),
        valid_after: String(validAfter),
        valid_before: String(validBefore),
        block: String(block),
      })
      .catch((error) => log.warn("payment.not_noted", { callId: id, reason: messageOf(error) }));
  }
}

type Known = { kind: "known"; id: string };

function fieldsOf({ id: callId, terms, replayed, settlement }: PaidCall) {
  return {
    callId,
    serviceId: terms.service_id,
    jobIndex: terms.job_index,
    payer: terms.payer,
    amount: terms.amount,
    symbol: terms.symbol,
    transaction: settlement.transaction,
    replayed,
  };
}

/** A request with a payment whose payer is recovered. */
type PaidRequest = {
  ids: JobIds;
  signed: SignedPayment;
  /** Counts the body. Whoever reads the request releases it in the end. */
  lease: BodyLease;
  /** Reads the body when it is first called, under the limit of that call; later calls get the same bytes. */
  readBody: (limitBytes: number) => Promise<Buffer>;
};

export type ReadPaidRequest = ReturnType<typeof createReadPaidRequest>;

/**
 * Reads the payment of a request, and who signed it; the body stays unread. A payment that cannot be read has no answer of
 * its own to look for, so the job, its policy and the limits refuse it first.
 */
export function createReadPaidRequest(catalog: Catalog, admission: Admission, bodies: BodyBudget) {
  function readSigned(req: IncomingMessage, ids: JobIds): SignedPayment {
    try {
      return identifyPayment(readPayment(req), catalog.tokens);
    } catch (refusal) {
      catalog.sold(ids);
      admission.assertOpen(jobKey(ids));
      throw refusal;
    }
  }

  return (req: IncomingMessage, res: ServerResponse, ids: JobIds): PaidRequest => {
    const signed = readSigned(req, ids);
    const lease = bodies.lease(req);
    let body: Promise<Buffer> | undefined;
    return {
      ids,
      signed,
      lease,
      readBody(limitBytes) {
        body ??= readBody(req, res, limitBytes, { lease });
        return body;
      },
    };
  };
}

export type FindKnown = ReturnType<typeof createFindKnown>;

/**
 * Finds the call that this payment has already, or that was bought under its payment identifier. Throws `queue.unavailable`,
 * and `payment.conflict` or `payment.identifier_conflict` if the call was bought with another route or body.
 */
export function createFindKnown(journal: PaymentJournal) {
  async function lookUp({ callId, payer, decoded }: SignedPayment) {
    const known = callId === undefined ? undefined : await journal.look(callId);
    if (known !== undefined || decoded.identifier === undefined) return known;
    const sameRequest = await journal.findIdentified(payer, decoded.identifier);
    return sameRequest === undefined ? undefined : journal.look(sameRequest);
  }

  return async function findKnown({ ids, signed, readBody }: PaidRequest): Promise<string | undefined> {
    const known = await lookUp(signed);
    if (known === undefined) return undefined;
    const isSame = known.id === signed.callId || signed.decoded.version === 1;
    const code = isSame ? "payment.conflict" : "payment.identifier_conflict";
    const conflict = () => new AppError(code, { reason: `${known.id} was bought with another request` });
    if (known.route !== jobPath(ids)) throw conflict();
    // No more is read than the body that was paid for.
    const body = await readBody(known.terms.body_bytes).catch((error: unknown) => {
      throw error instanceof AppError && error.code === "request.too_large" ? conflict() : error;
    });
    if (sha256Hex(body) !== known.bodySha256) throw conflict();
    return known.id;
  };
}

type CheckDeps = {
  requestedJob: RequestedJob;
  admission: Admission;
  authorizeCaller: AuthorizeCaller;
  verifyPayment: VerifyPayment;
  sinceOf: SinceOf;
  offerSettings: OfferSettings;
  bodyBytesMax: number;
  clock: Clock;
};

/** A new payment that nothing refuses, and what was found out on the way. */
type Admitted = {
  kind: "admitted";
  signed: AcceptedPayment;
  job: Job;
  offer: MatchedOffer;
  body: Buffer;
  caller: AuthorizedCaller | undefined;
  request: FacilitatorRequest;
  /** The facilitator that verified the payment, which is the one to settle. */
  facilitator: string;
  sinceBlock: bigint;
};

export type CheckPayment = ReturnType<typeof createCheckPayment>;

/** Everything that can refuse a new payment, in this order. None of it moves money. */
export function createCheckPayment(deps: CheckDeps) {
  const { requestedJob, admission, authorizeCaller, verifyPayment, sinceOf } = deps;
  const { offerSettings, bodyBytesMax, clock } = deps;

  return async function check(req: IncomingMessage, paid: PaidRequest): Promise<Admitted> {
    const job = requestedJob(req, paid.ids);
    admission.assertOpen(jobKey(paid.ids));
    assertNotEncoded(req);
    const signed = inAcceptedToken(paid.signed);
    const { decoded, token, payer } = signed;
    const offer = matchOffer(signed, job, offerSettings, clock());
    if (job.operatorQuote !== undefined) assertRequester(job.operatorQuote, payer);
    const body = await paid.readBody(bodyBytesMax);
    if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
    const caller = await authorizeCaller({ job, req, body, payer });
    const request: FacilitatorRequest = {
      x402Version: decoded.version,
      paymentPayload: decoded.raw,
      paymentRequirements: offer.requirements,
    };
    const network = decoded.version === 1 ? decoded.network : token.network;
    const [facilitator, sinceBlock] = await bothOf(
      verifyPayment(request, network, token, payer),
      sinceOf(signed),
    );
    paid.lease.prove(); // anybody can sign a payment; this one can be settled
    failpoint("x402.after_verify");
    return { kind: "admitted", signed, job, offer, body, caller, request, facilitator, sinceBlock };
  };
}

/** What both answer. If the chain says that the payment is used up, it does not matter what the facilitator says of it. */
async function bothOf(verified: Promise<string>, since: Promise<bigint>): Promise<[string, bigint]> {
  const [facilitator, block] = await Promise.allSettled([verified, since]);
  if (block.status === "rejected" && block.reason instanceof AlreadySpent) throw block.reason;
  if (facilitator.status === "rejected") throw facilitator.reason;
  if (block.status === "rejected") throw block.reason;
  return [facilitator.value, block.value];
}

/** The runner would get an encoded body without being told of its coding. */
function assertNotEncoded(req: IncomingMessage): void {
  const coding = contentCoding(req);
  if (coding !== undefined) throw codingUnsupported(coding, "jobs take no Content-Encoding");
}

/** What the claim writes before money moves. */
function toNewPayment(
  req: IncomingMessage,
  { signed, job, offer, body, caller, request, facilitator, sinceBlock }: Admitted,
  metadataPrefix: string,
  now: number,
): NewPayment {
  const { token, decoded, payer, callId } = signed;
  const { authorization, version, identifier } = decoded;
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
    body_bytes: body.length,
  };
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
  });
  return {
    call,
    terms,
    request,
    facilitator,
    sinceBlock,
    route: jobPath(job),
    identifier,
    callerNonce: caller?.nonce,
    quoteUse: job.operatorQuote && toQuoteUse(job.operatorQuote, now),
  };
}
