import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { AppError, toAppError } from "../../../shared/errors/app-error.ts";
import { CODES } from "../../../shared/errors/codes.ts";
import type { Admission } from "../../../shared/gateway/admission.ts";
import type { AdmitReceiver } from "../../../shared/gateway/named-receivers.ts";
import { hashBody, readBody } from "../../../shared/http/body.ts";
import type { BodyBudget, BodyLease } from "../../../shared/http/body-budget.ts";
import { assertNotEncoded } from "../../../shared/http/content-coding.ts";
import { hasInputEnded, onInputEnd } from "../../../shared/http/input-end.ts";
import { type JobIds, jobKey } from "../../../shared/job-call/job-ids.ts";
import {
  type ConcurrencyLimit,
  createConcurrencyLimit,
} from "../../../shared/lifecycle/concurrency-limit.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import { type Clock, settled } from "../../../shared/time/clock.ts";
import type { CallbackFor, Catalog, Job, RequestedJob } from "../catalog.ts";
import type { Since, SinceOf } from "../chains.ts";
import { AlreadySpent, type NoteSpent } from "../payment/already-spent.ts";
import type { AskSigner, ContractSigned } from "../payment/contract-signer.ts";
import { identifyPayment, inAcceptedToken, readPayment, type SignedPayment } from "../payment/header.ts";
import type { AssertFits } from "../payment/input.ts";
import { assertWindow, matchOffer, type OfferSettings } from "../payment/offer.ts";
import { assertInputs, assertRequester } from "../payment/operator-quote.ts";
import {
  answerPaid,
  type FindKnown,
  type Known,
  type KnownOutcome,
  outcomeUnknown,
  type PaidCall,
  toOpenOutcome,
  toPaidCall,
  type UntilDecided,
} from "../payment/outcome.ts";
import type { PayersResult } from "../payment/payers-result.ts";
import { type Admitted, type ClaimPayment, type Settle, toNewPayment } from "../payment/settle.ts";
import { type Verified, type VerifyAtLimits, type Verifying, wasAsked } from "../payment/unpaid-verifies.ts";
import type { AuthorizeCaller } from "../policy/caller.ts";

type PayJobDeps = {
  readPaidRequest: ReadPaidRequest;
  findKnown: FindKnown;
  knownOutcome: KnownOutcome;
  /** How many payments may be claimed and settled at a time, each with its body in memory. */
  paymentsInFlight: ConcurrencyLimit;
  check: CheckPayment;
  claim: ClaimPayment;
  settle: Settle;
  untilDecided: UntilDecided;
  noteSpent: NoteSpent;
  statusUrlOf: (callId: string) => string;
  payersResult: PayersResult;
  metadataPrefix: string;
  clock: Clock;
  /** Redis', by which quotes are made and judged, and calls are dated. */
  redisTime: Clock;
  log: Logger;
};

/** A request to the paid route. `payJob` adds the payment once it is read, so that the log of a refusal can name it. */
export type PaymentAttempt = { ids: JobIds; startedAt: number; signed: SignedPayment | undefined };

export type PayJob = ReturnType<typeof createPayJob>;

/**
 * One request with a payment: `payJob`, `pay`, `payOnce` and `payNew` are its line, and `check` below has everything that can
 * refuse it, before money moves.
 */
export function createPayJob(deps: PayJobDeps) {
  const { readPaidRequest, findKnown, knownOutcome, check, noteSpent, statusUrlOf, payersResult } = deps;
  const { clock, log } = deps;
  const { claims, payNew } = createPayNew(deps);

  return async function payJob(req: IncomingMessage, res: ServerResponse, attempt: PaymentAttempt) {
    const request = readPaidRequest(req, res, attempt.ids);
    attempt.signed = request.signed;
    const paid = await beforeItsEnd(request, pay(request));

    const access = await payersResult.accessFor(req, paid);
    if (!payersResult.answerLater({ req, res, startedAt: attempt.startedAt }, paid, access))
      answerPaid(res, paid, statusUrlOf(paid.id), access);
    failpoint("x402.after_answer");
    log.info("payment.accepted", { ...fieldsOf(paid), ms: clock() - attempt.startedAt });
  };

  /** Whoever waits for an outcome that is open has neither a place nor a body. */
  async function pay(request: PaidRequest): Promise<PaidCall> {
    const outcome = await payOnce(request).finally(request.release);
    return outcome.kind === "paid" ? outcome.paid : knownOutcome(outcome, request.isGone);
  }

  /** Copies of a payment that come at once wait for one claim, and take one place. */
  async function payOnce(request: PaidRequest): Promise<Known | Paid> {
    const known = await findKnown(request);
    if (known !== undefined) return known;
    const admitted = await admit(request);
    if (admitted.kind === "known") return admitted;
    for (;;) {
      const ahead = claims.get(admitted.signed.callId);
      if (ahead === undefined) return payNew(request, admitted);
      const claimed = await afterClaim(ahead, request);
      if (claimed !== undefined) return claimed;
    }
  }

  /**
   * What a copy's claim makes of this request: its call, or our failure. Undefined if the claim was refused: it may have come with
   * another caller's proof, quote or identifier.
   */
  async function afterClaim(ahead: Promise<unknown>, request: PaidRequest): Promise<Known | undefined> {
    const outcome = await settled(ahead);
    if (outcome.kind === "done" || !isOurFault(outcome.error)) return findKnown(request);
    const known = await findKnown(request).catch(() => undefined);
    if (known === undefined) throw outcome.error;
    return known;
  }

  /** Looks twice before it refuses: another replica may have claimed the same payment meanwhile (docs/decisions.md). */
  async function admit(request: PaidRequest): Promise<Admitted | Known> {
    try {
      return await check(request);
    } catch (refusal) {
      const known = await findKnown(request);
      if (known !== undefined) return known;
      if (refusal instanceof AlreadySpent) await noteSpent(request.signed, request.ids, refusal);
      throw refusal;
    }
  }
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
      const tell = () => reject(outcomeUnknown(callId, "its client has ended its side meanwhile"));
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

/** Claims and settles payments that nothing refuses. */
function createPayNew(deps: PayJobDeps) {
  const { paymentsInFlight, claim, settle, untilDecided, payersResult, metadataPrefix } = deps;
  const { clock, redisTime } = deps;
  const { accessOf } = payersResult;
  /** The claims that are under way here, by call. */
  const claims = new Map<string, ReturnType<ClaimPayment>>();

  async function claimAndSettle(
    { req, lease, party }: PaidRequest,
    admitted: Admitted,
    onDecided: (known: Known) => void,
  ): Promise<Known | Paid> {
    const payment = toNewPayment(req, admitted, { metadataPrefix, accessOf, now: redisTime() });
    const { id } = payment.call;
    const { giveBack } = admitted.verified;
    const claiming = claim(payment, party);
    claims.set(id, claiming);
    const claimed = await settled(claiming).finally(() => claims.delete(id));
    if (claimed.kind === "failed") {
      if (isJournalsFault(claimed.error)) giveBack();
      return { kind: "known", id, open: toOpenOutcome(claimed.error, clock()) };
    }
    if (claimed.result.kind === "known") return claimed.result;
    lease.prove(); // anybody can sign a payment, and send it a thousand times; this one is to be settled
    const since = clock();
    const settling = settle(payment, claimed.result.ageMs);
    void untilDecided(id, settling).then((decided) => {
      if (decided !== undefined) onDecided({ kind: "known", id, onSettled: giveBack });
    });
    const outcome = await settled(settling);
    if (outcome.kind === "failed")
      return { kind: "known", id, open: toOpenOutcome(outcome.error, since), onSettled: giveBack };
    giveBack();
    return { kind: "paid", paid: toPaidCall(outcome.result, { replayed: false, isFirst: true }) };
  }

  return {
    claims,

    /** Resolves with the first outcome. The place is held until the facilitator has answered: it still settles the payment. */
    payNew(request: PaidRequest, admitted: Admitted): Promise<Known | Paid> {
      return new Promise((resolve, reject) => {
        const paying = paymentsInFlight.within(() => claimAndSettle(request, admitted, resolve));
        paying.then(resolve, reject);
      });
    },
  };
}

/** All bodies of payments that are claimed and settled stay under this together. */
const IN_FLIGHT_BYTES_MAX = 1024 ** 3;

export function createPaymentsInFlight(bodyBytesMax: number): ConcurrencyLimit {
  const bodiesMax = Math.floor(IN_FLIGHT_BYTES_MAX / Math.max(1, bodyBytesMax));
  const max = Math.max(16, Math.min(1024, bodiesMax));
  return createConcurrencyLimit({ max, what: "payments", code: "payment.unavailable" });
}

type Paid = { kind: "paid"; paid: PaidCall };

function isOurFault(refusal: unknown): boolean {
  return CODES[toAppError(refusal).code].status >= 500;
}

/** A full house is not: it is refused to those who have filled it. */
function isJournalsFault(refusal: unknown): boolean {
  return isOurFault(refusal) && toAppError(refusal).code !== "payment.unavailable";
}

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

/** A request with a payment. */
type PaidRequest = {
  req: IncomingMessage;
  ids: JobIds;
  signed: SignedPayment;
  /** Under which the client's address is counted. */
  party: string;
  /** Counts the body. */
  lease: BodyLease;
  /** Reads the body when it is first called, under the limit of that call; later calls get the same bytes. */
  readBody: (limitBytes: number) => Promise<Buffer>;
  /** The hash of the body. If `readBody` was not called before, the bytes are gone then. */
  bodySha256: (limitBytes: number) => Promise<string>;
  /** The body is not needed any more, and nothing of it is kept. Whoever reads the request calls it in the end. */
  release: () => void;
  /** Whether the client has ended its side: nothing is waited for any longer. */
  isGone: () => boolean;
};

type ReadDeps = { catalog: Catalog; admission: Admission; bodies: BodyBudget; partyOf: PartyOf };

/** Under which the address of a request's client is counted (`addressKey`). */
export type PartyOf = (req: IncomingMessage) => string;

export type ReadPaidRequest = ReturnType<typeof createReadPaidRequest>;

/**
 * Reads the payment of a request, and who signed it; the body stays unread. A payment that cannot be read has no answer of
 * its own to look for, so the job, its policy and the limits refuse it first.
 */
export function createReadPaidRequest({ catalog, admission, bodies, partyOf }: ReadDeps) {
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
      req,
      ids,
      signed,
      party: partyOf(req),
      lease,
      readBody(limitBytes) {
        body ??= readBody(req, res, limitBytes, { lease });
        return body;
      },
      async bodySha256(limitBytes) {
        return body === undefined ? hashBody(req, res, limitBytes) : sha256Hex(await body);
      },
      release() {
        body = undefined;
        lease.release();
      },
      isGone: () => hasInputEnded(req),
    };
  };
}

type CheckDeps = {
  requestedJob: RequestedJob;
  callbackFor: CallbackFor;
  admission: Admission;
  askSigner: AskSigner;
  assertFits: AssertFits;
  authorizeCaller: AuthorizeCaller;
  verify: VerifyAtLimits;
  sinceOf: SinceOf;
  offerSettings: OfferSettings;
  bodyBytesMax: number;
  manner: Manner;
  clock: Clock;
  redisTime: Clock;
};

/** In which the paid route and the dry-run differ. */
export type Manner = {
  /** Whether the body of a request for this job is read. */
  takesBody: (job: Job) => boolean;
  /** Does what asks others: the token's node, and once the body is there whoever else has a word in it. */
  inTurn: <Result>(party: string, work: () => Promise<Result>) => Promise<Result>;
};

export const PAID: Manner = { takesBody: () => true, inTurn: (_party, work) => work() };

export type CheckPayment = ReturnType<typeof createCheckPayment>;

/**
 * Everything that can refuse a new payment, in this order. None of it moves money. Whoever has no money, or has spent it, is refused
 * before the body is read and before anybody but the token's node is asked.
 */
export function createCheckPayment(deps: CheckDeps) {
  const { requestedJob, callbackFor, admission, askSigner, assertFits, authorizeCaller, verify, sinceOf } =
    deps;
  const { offerSettings, bodyBytesMax, manner, clock, redisTime } = deps;

  /** If the chain says meanwhile that the payment is used up, it does not matter what the facilitator says of it. */
  async function verifyUnspent(verifying: Verifying): Promise<Verified> {
    return verify(verifying).catch(async (refusal) => {
      if (!wasAsked(refusal)) throw refusal;
      await sinceOf(verifying.signed, verifying.party).catch((error) => {
        if (error instanceof AlreadySpent) throw error;
      });
      throw refusal;
    });
  }

  /** Once more, if a body or a caller's contract took long. */
  async function recent(since: Since, { signed, party }: Verifying): Promise<Since> {
    return clock() - since.at <= UNUSED_MS ? since : sinceOf(signed, party);
  }

  return async function check(paid: PaidRequest): Promise<Admitted> {
    const { req } = paid;
    const job = requestedJob(req, paid.ids);
    admission.assertOpen(jobKey(paid.ids));
    assertNotEncoded(req);
    const signed = inAcceptedToken(paid.signed);
    const { decoded, payer } = signed;
    const { party } = paid;
    const offer = matchOffer(signed, job, offerSettings, { quoteAt: redisTime(), windowAt: clock() });
    if (job.operatorQuote !== undefined) assertRequester(job.operatorQuote, payer);
    const contractSigned = signed.isProven
      ? undefined
      : await manner.inTurn(party, () => askSigner(signed, party));
    // From here on a refusal looks again for what this payer has bought (`admit`).
    paid.signed.isProven = true;
    // A contract that has no money does not move it either: that is the reason to be told.
    const since = await manner.inTurn(party, () => sinceOf(signed, party));
    if (contractSigned?.moves === false) throw unmoved();
    const body = manner.takesBody(job) ? await paid.readBody(bodyBytesMax) : NOTHING;
    if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
    assertFits(job, body, party);
    return manner.inTurn(party, async () => {
      const caller = await authorizeCaller({ job, req, body, payer, party });
      const verifying = { request: offer.request, signed, party };
      const verified = await verifyUnspent(verifying);
      const unused = await recent(since, verifying);
      assertWindow(decoded, offerSettings, clock());
      failpoint("x402.after_verify");
      const callback = callbackFor(req, job);
      const found = { signed, job, offer, body, caller, callback, since: unused } as const;
      return { kind: "admitted", ...found, verified: together(verified, contractSigned) };
    });
  };
}

/** The same for a payment that is not only tried: a receiver that its request names by a wildcard counts for its payer. */
export function countingReceivers(check: CheckPayment, admitReceiver: AdmitReceiver): CheckPayment {
  return async (paid) => {
    const admitted = await check(paid);
    const { callback, signed } = admitted;
    if (callback?.byWildcard)
      await admitReceiver(`payer:${signed.payer}`, jobKey(paid.ids), callback.target.receiver);
    return admitted;
  };
}

/** Gives both back. */
function together(verified: Verified, asked: ContractSigned | undefined): Verified {
  const giveBack = () => {
    verified.giveBack();
    asked?.giveBack();
  };
  return { ...verified, giveBack };
}

/** The payer has the money, and the contract that is to be deployed takes the signature. */
function unmoved(): AppError {
  const detail = "the token does not take a signature of the contract that is to be deployed";
  return AppError.public("payment.rejected", detail);
}

const UNUSED_MS = 2000;
const NOTHING = Buffer.alloc(0);
