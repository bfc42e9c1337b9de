import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { type AppError, toAppError } from "../../../shared/errors/app-error.ts";
import { CODES } from "../../../shared/errors/codes.ts";
import { traceparentOf } from "../../../shared/http/headers.ts";
import { logRefused } from "../../../shared/http/refusal.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { NewPayment } from "../../../shared/payments/payment.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { AskedJob } from "../asked-job.ts";
import type { Catalog, Job } from "../catalog.ts";
import type { ConcurrencyLimit } from "../concurrency-limit.ts";
import { usedUp } from "../payment/operator-quote.ts";
import { type KnownPayment, OpenPayment, toPaid } from "../payment/outcome.ts";
import { toPaidCall } from "../payment/paid-call.ts";
import { readSigned } from "../payment/read-signed.ts";
import { answerPaid, answerRefused, type Paid } from "../payment/responses.ts";
import type { TakePayment } from "../payment/settle.ts";
import type { SignedPayment } from "../payment/signer.ts";
import { jobPath } from "../route.ts";
import { noOffer } from "../sold-job.ts";
import type { Admit, Admitted } from "./admit.ts";
import type { Challenge } from "./challenge.ts";
import { type Arrival, findKnown } from "./find-known.ts";
import { readOnce } from "./read-once.ts";

export type PayJobDeps = {
  catalog: Catalog;
  challenge: Challenge;
  knownPayment: KnownPayment;
  journal: PaymentJournal;
  /** Throws what keeps calls from being taken now: start, stop, Redis, backpressure. */
  assertOpen: () => void;
  /** How many new payments may be under way, each with its body in memory. */
  paymentsInFlight: ConcurrencyLimit;
  askedJob: AskedJob;
  admit: Admit;
  take: TakePayment;
  settings: { metadataPrefix: string };
  statusUrlOf: (id: string) => string;
  clock: Clock;
  log: Logger;
};

/** One request with a payment, top to bottom. Everything that can refuse comes before money moves; after that nothing does. */
export function createPayJob(deps: PayJobDeps) {
  const { knownPayment, clock } = deps;
  return async function payJob(req: IncomingMessage, res: ServerResponse, ids: JobIds): Promise<void> {
    const startedAt = clock();
    let signed: SignedPayment | undefined;
    try {
      signed = readSigned(deps, req, ids);
      const arrival = { ids, signed, readBody: readOnce(req, res) };
      const known = await findKnown(deps, arrival);
      const paid = known
        ? await knownPayment.answerOf(known)
        : await deps.paymentsInFlight.within(() => takeNew(deps, req, arrival));

      answerPaid(res, paid);
      failpoint("x402.after_answer");
      deps.log.info("payment.accepted", { ...fieldsOf(paid), ms: clock() - startedAt });
    } catch (thrown) {
      refuse(deps, { req, res, ids, signed, thrown, startedAt });
    }
  };
}

async function takeNew(deps: PayJobDeps, req: IncomingMessage, arrival: Arrival): Promise<Paid> {
  const { knownPayment, take } = deps;
  const admitted = await deps.admit(req, arrival).catch(async (refusal: unknown) => {
    // The same payment, sent twice at once, may have been taken by another replica: it is not to be refused then.
    const known = await findKnown(deps, arrival);
    if (known === undefined) throw refusal;
    return known;
  });
  if (typeof admitted === "string") return knownPayment.answerOf(admitted);
  const payment = toNewPayment(deps, req, admitted);
  const claimed = await take.claim(payment);
  if (claimed.kind === "known") return knownPayment.answerOf(claimed.id);
  const settled = await take.settle(payment);
  return toPaid(settled, { replayed: false, statusUrl: deps.statusUrlOf(settled.id) });
}

/** What is written down before money moves. */
function toNewPayment(deps: PayJobDeps, req: IncomingMessage, admitted: Admitted): NewPayment {
  const { signed, body, job, agreed, caller, facilitator, sinceBlock } = admitted;
  const { token, decoded, payer, callId } = signed;
  const { authorization, version } = decoded;
  const terms = {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    pay_to: token.payTo,
    payer,
    nonce: authorization.nonce.toLowerCase(),
    amount: agreed.amount,
    valid_after: String(authorization.validAfter),
    valid_before: String(authorization.validBefore),
    quote_digest: agreed.quoteDigest,
    x402_version: version,
    body_bytes: body.length,
  };
  const call = toPaidCall({
    id: callId,
    terms,
    caller: caller?.address,
    metadataPrefix: deps.settings.metadataPrefix,
    contentType: req.headers["content-type"],
    body,
    bodySha256: sha256Hex(body),
    acceptedAt: deps.clock(),
    traceparent: traceparentOf(req),
  });
  return {
    call,
    terms,
    request: { x402Version: version, paymentPayload: decoded.raw, paymentRequirements: agreed.requirements },
    facilitator,
    sinceBlock,
    route: jobPath(job),
    identifier: decoded.version === 2 ? decoded.identifier : undefined,
    callerNonce: caller?.nonce,
    quoteUse: job.quote && usedUp(job.quote, deps.clock()),
  };
}

function fieldsOf({ id: callId, terms, replayed, settlement }: Paid) {
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

/** What a 402 offers again; nothing where the job is not sold, or the quote not honoured. */
function jobOnOffer({ askedJob }: PayJobDeps, req: IncomingMessage, ids: JobIds): Job | undefined {
  try {
    return askedJob(req, ids);
  } catch {
    return undefined;
  }
}

/** A 402 has something to offer, unless it is the end of the payment that it tells. */
function payable(error: AppError, job: Job | undefined): AppError {
  if (job === undefined || error.code === "payment.void") return error;
  return noOffer(job) ?? error;
}

type Refused = { req: IncomingMessage; res: ServerResponse; ids: JobIds } & {
  signed: SignedPayment | undefined;
  thrown: unknown;
  startedAt: number;
};

function refuse(deps: PayJobDeps, { req, res, ids, signed, thrown, startedAt }: Refused): void {
  const refusal = toAppError(thrown);
  const job = CODES[refusal.code].status === 402 ? jobOnOffer(deps, req, ids) : undefined;
  const error = payable(refusal, job);
  answerRefused(deps.challenge, error, {
    req,
    res,
    ids,
    job,
    statusUrl: error instanceof OpenPayment ? deps.statusUrlOf(error.callId) : undefined,
  });
  logRefused(deps.log, "payment.refused", {
    ...ids,
    ...(signed !== undefined && { callId: signed.callId, payer: signed.payer }),
    error,
    ms: deps.clock() - startedAt,
  });
}
