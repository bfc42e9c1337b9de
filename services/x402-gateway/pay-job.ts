import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { traceparentOf } from "../../shared/http/headers.ts";
import { logRefused } from "../../shared/http/refusal.ts";
import type { Reached } from "../../shared/lifecycle/crash-point.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { PaymentJournal } from "../../shared/payments/journal.ts";
import type { NewPayment } from "../../shared/payments/payment.ts";
import type { JobIds } from "../../shared/prices/price-list.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { type Agreed, type AgreeSettings, agree } from "./agree.ts";
import { answerPaid, answerRefused, type Paid } from "./answers.ts";
import type { AuthorizeCaller, AuthorizedCaller } from "./caller-policy.ts";
import type { Catalogue, Job, Token } from "./catalogue.ts";
import type { Challenge } from "./challenge.ts";
import type { Facilitators } from "./facilitators.ts";
import { identifyPayment, type SignedPayment } from "./identify.ts";
import { type KnownPayment, OpenPayment, toPaid } from "./known-payment.ts";
import { toPaidCall } from "./paid-call.ts";
import { readPayment } from "./payment-header.ts";
import { type ReadBody, readOnce } from "./read-once.ts";
import { jobPath } from "./route.ts";
import { soldJob } from "./sold-job.ts";
import type { TakePayment } from "./take-payment.ts";
import { verifyPayment } from "./verify-payment.ts";

export type PayJobDeps = {
  catalogue: Catalogue;
  challenge: Challenge;
  knownPayment: KnownPayment;
  journal: PaymentJournal;
  /** Throws what keeps calls from being taken now: start, stop, Redis, backpressure. */
  assertOpen: () => void;
  authorizeCaller: AuthorizeCaller;
  facilitators: Facilitators;
  /** A block of the token's chain that no payment claimed from now on can be before. */
  headOf: (token: Token) => bigint;
  take: TakePayment;
  settings: AgreeSettings & { bodyBytesMax: number; metadataPrefix: string };
  statusUrlOf: (id: string) => string;
  clock: Clock;
  log: Logger;
  reached: Reached;
};

/** One request with a payment, top to bottom. Everything that can refuse comes before money moves; after that nothing does. */
export function createPayJob(deps: PayJobDeps) {
  const { catalogue, knownPayment, clock, reached } = deps;
  return async function payJob(req: IncomingMessage, res: ServerResponse, ids: JobIds): Promise<void> {
    const startedAt = clock();
    let signed: SignedPayment | undefined;
    try {
      signed = identifyPayment(readPayment(req), catalogue.tokens);
      const arrival = { req, ids, signed, readBody: readOnce(req, res) };
      const known = await findKnown(deps, arrival);
      const paid = known ? await knownPayment.answerOf(known) : await takeNew(deps, arrival);

      answerPaid(res, paid);
      reached("x402.after_answer");
      deps.log.info("payment.accepted", { ...fieldsOf(paid), ms: clock() - startedAt });
    } catch (thrown) {
      refuse(deps, { req, res, ids, signed, thrown, startedAt });
    }
  };
}

type Arrival = { req: IncomingMessage; ids: JobIds; signed: SignedPayment; readBody: ReadBody };

/** The payment's call, if the journal knows it. Throws `payment.conflict` where it was paid for another request. */
async function findKnown(deps: PayJobDeps, { ids, signed, readBody }: Arrival): Promise<string | undefined> {
  const known = await deps.journal.find(signed.callId).catch(unreadable);
  if (known === undefined) return undefined;
  await deps.knownPayment.assertSame(known, { route: jobPath(ids), readBody });
  return known.id;
}

async function takeNew(deps: PayJobDeps, arrival: Arrival): Promise<Paid> {
  const { knownPayment, take } = deps;
  const payment = await admit(deps, arrival).catch(async (refusal: unknown) => {
    // The same payment, sent twice at once, may have been taken by another replica: it is not to be refused then.
    if ((await findKnown(deps, arrival)) === undefined) throw refusal;
    return undefined;
  });
  if (payment === undefined) return knownPayment.answerOf(arrival.signed.callId);
  const claimed = await take.claim(payment);
  if (claimed.kind === "known") return knownPayment.answerOf(claimed.id);
  const settled = await take.settle(payment);
  return toPaid(settled, { replayed: false, statusUrl: deps.statusUrlOf(settled.id) });
}

/** All that can refuse a payment nobody has seen before; none of it moves money. */
async function admit(deps: PayJobDeps, { req, ids, signed, readBody }: Arrival): Promise<NewPayment> {
  const { settings } = deps;
  const job = soldJob(deps.catalogue, ids);
  deps.assertOpen();
  const agreed = agree(signed, job, { settings, now: deps.clock() });
  // Before the facilitator looks whether the nonce is unused: a later head could be past the block that uses it.
  const sinceBlock = deps.headOf(signed.token);
  const body = await readBody(settings.bodyBytesMax);
  const caller = await deps.authorizeCaller({ job, req, body, payer: signed.payer });
  const facilitator = await verifyPayment(deps, signed, agreed);
  deps.reached("x402.after_verify");
  return toNewPayment(deps, { req, body, job, signed, agreed, caller, facilitator, sinceBlock });
}

function unreadable(cause: unknown): never {
  throw new AppError("queue.unavailable", {
    reason: "the journal cannot be read",
    retryAfterMs: 2000,
    cause,
  });
}

type Arrived = {
  req: IncomingMessage;
  body: Buffer;
  job: Job;
  signed: SignedPayment;
  agreed: Agreed;
  caller: AuthorizedCaller | undefined;
  facilitator: string;
  sinceBlock: bigint;
};

function toNewPayment(deps: PayJobDeps, arrived: Arrived): NewPayment {
  const { req, body, job, signed, agreed, caller, facilitator, sinceBlock } = arrived;
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

type Refused = { req: IncomingMessage; res: ServerResponse; ids: JobIds } & {
  signed: SignedPayment | undefined;
  thrown: unknown;
  startedAt: number;
};

function refuse(deps: PayJobDeps, { req, res, ids, signed, thrown, startedAt }: Refused): void {
  const error = toAppError(thrown);
  const job = deps.catalogue.find(ids);
  answerRefused(deps.challenge, error, {
    req,
    res,
    ids,
    job: job?.policy.mode === "disabled" ? undefined : job,
    statusUrl: error instanceof OpenPayment ? deps.statusUrlOf(error.callId) : undefined,
  });
  logRefused(deps.log, "payment.refused", {
    ...ids,
    ...(signed !== undefined && { callId: signed.callId, payer: signed.payer }),
    error,
    ms: deps.clock() - startedAt,
  });
}
