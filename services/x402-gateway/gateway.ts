import type { IncomingMessage } from "node:http";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import type { X402Toml } from "../../shared/config/x402-toml.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { warnIfPortable } from "../../shared/ethereum/secp256k1.ts";
import { tellFollowers } from "../../shared/events/publish.ts";
import { createProvesByToken, type Proves } from "../../shared/gateway/ask-result.ts";
import { createAnswerCallbackKeys } from "../../shared/gateway/callback-keys.ts";
import {
  type Gateway,
  type IngressOptions,
  openIngress,
  toIngressOptions,
  WAIT_MS_MAX,
} from "../../shared/gateway/ingress.ts";
import { createAdmitReceiver } from "../../shared/gateway/named-receivers.ts";
import { createReadCallback } from "../../shared/gateway/read-callback.ts";
import type { Readiness } from "../../shared/http/readiness.ts";
import { createRefusalLog } from "../../shared/http/refusal-log.ts";
import { addressKey } from "../../shared/ip/address.ts";
import { storedBytesOf } from "../../shared/job-call/job-call.ts";
import { createServedPart, type ServedPart } from "../../shared/library/part.ts";
import { openConnection } from "../../shared/library/redis-option.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createPaymentJournal, paidQueueOf } from "../../shared/payments/journal.ts";
import type { Payment } from "../../shared/payments/payment.ts";
import { createSpentElsewhere } from "../../shared/payments/spent-elsewhere.ts";
import { createRates, type ObservedRate } from "../../shared/pricing/rates/rates.ts";
import { openReports } from "../../shared/processes/report.ts";
import { openRegistry } from "../../shared/queue/registry.ts";
import { extraMs } from "../../shared/redis/large.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { createResultTokens } from "../../shared/results/token.ts";
import { systemClock } from "../../shared/time/clock.ts";
import {
  createCallbackFor,
  createLogTokenKinds,
  createRequestedJob,
  toCatalog,
  toDrained,
} from "./catalog.ts";
import { createChains } from "./chains.ts";
import type { Authorize } from "./facilitator/authorize.ts";
import { createFacilitators, createVerifyPayment } from "./facilitator/pool.ts";
import { readX402Options, type X402GatewayOptions } from "./options.ts";
import { createNoteSpent } from "./payment/already-spent.ts";
import { createAskSigner } from "./payment/contract-signer.ts";
import { type AssertFits, createAssertFits } from "./payment/input.ts";
import { createNarrowOffers } from "./payment/narrow-offers.ts";
import { toOfferSettings } from "./payment/offer.ts";
import { createReadOperatorQuote } from "./payment/operator-quote.ts";
import { createFindKnown, createKnownOutcome, createUntilDecided } from "./payment/outcome.ts";
import { createPayersResult } from "./payment/payers-result.ts";
import {
  createClaimPayment,
  createConfirmSettlement,
  createEnqueueSettled,
  createReview,
  createSettle,
} from "./payment/settle.ts";
import { createUnpaidAllowances, createVerifyAtLimits } from "./payment/unpaid-verifies.ts";
import { createCallerPolicy, createIsPermittedCaller } from "./policy/caller.ts";
import { createReconcile } from "./reconciler/reconcile.ts";
import { startReconciler } from "./reconciler/reconciler.ts";
import { createCallResult } from "./routes/call-result.ts";
import { createCallStatus } from "./routes/call-status.ts";
import { createChallenge } from "./routes/challenge.ts";
import { createDryRun, createDryRunManner } from "./routes/dry-run.ts";
import { createListJobs } from "./routes/list-jobs.ts";
import {
  countingReceivers,
  createCheckPayment,
  createPayJob,
  createPaymentsInFlight,
  createReadPaidRequest,
  type Manner,
  PAID,
} from "./routes/pay-job.ts";
import { toPriceAnswer } from "./routes/price.ts";
import { toSchemaAnswer } from "./routes/schema.ts";
import { createWatchCall } from "./routes/watch-call.ts";
import { CORS_HEADERS, createHandler, createRefuse } from "./server.ts";
import { toSharedChecks } from "./shared-checks.ts";
import { createSignIn } from "./sign-in/sign-in.ts";

export type { JobOptions } from "../../shared/library/job-options.ts";
export type { Listening, Readiness } from "../../shared/library/part.ts";
export type {
  DomainOptions,
  RateOptions,
  SingleRateOptions,
  TokenOptions,
} from "../../shared/library/token-options.ts";
export type { Logger } from "../../shared/log/logger.ts";
export type { Authorize, FacilitatorCall } from "./facilitator/authorize.ts";
export type { FacilitatorOptions, JobPolicyOptions, X402GatewayOptions } from "./options.ts";

export type X402Gateway = ServedPart & {
  /** What is known now of each token's rate. */
  rates(): ObservedRate[];
};

/**
 * A payment gateway for a program of your own. Each option is checked by the rule of its key in `x402.toml`, `job_pricing.toml` and
 * `postern.toml`; throws `start.config_invalid`, which names every option that is wrong.
 */
export function createX402Gateway(options: X402GatewayOptions): X402Gateway {
  const { x402, prices, postern, warnings } = readX402Options(options);
  const { log = silentLogger, mountPath, authorize } = options;
  for (const warning of warnings) log.warn("config.warning", { warning });
  const connection = openConnection(options.redis, postern.redis.url, "requests", log);
  const { redis } = connection;
  const reports = openReports({ kind: "x402", postern, config: { x402, prices }, redis, log });
  const gateway = composeX402Gateway({
    x402,
    prices,
    ...toIngressOptions(postern),
    ...(authorize && { authorize }),
    redis,
    log: reports.log,
  });
  const part = createServedPart({
    ...gateway,
    mountPath,
    end: () => gateway.close(),
    reports,
    connection,
    requestTimeoutMs: x402.request_timeout_secs * 1000,
    connectionsMax: postern.http.connections,
    keepAliveMs: postern.http.keep_alive_secs * 1000,
    graceMs: graceMsOf(x402, postern),
    log,
  });
  return { ...part, rates: gateway.rates };
}

/** @internal How long requests under way may take to end. */
export function graceMsOf(x402: X402Toml, { limits }: PosternToml): number {
  const writingMs = limits.enqueue_timeout_ms + extraMs(storedBytesOf(x402.body_limit_bytes));
  return (x402.facilitator_timeout_secs + x402.settle_timeout_secs) * 1000 + 2 * writingMs;
}

/** @internal Of a checked configuration. */
export type ComposedOptions = IngressOptions & {
  x402: X402Toml;
  prices: PriceList;
  metadataPrefix: string;
  authorize?: Authorize;
  /** It sells nothing, and answers those who have bought. */
  isDrained?: boolean;
};

/** @internal */
export type ComposedGateway = Gateway & {
  /** What is known now of each token's rate. */
  rates(): ObservedRate[];
  /** Ends the gateway's timers and connections. Call it last, when nothing more can arrive. */
  close(): Promise<void>;
};

/** @internal The gateway, made of its parts. What two replicas have to agree on is in Redis or on the chain. */
export function composeX402Gateway(options: ComposedOptions): ComposedGateway {
  const { x402, prices, metadataPrefix, redis, authorize, isDrained, clock = systemClock } = options;
  const settleTimeoutMs = x402.settle_timeout_secs * 1000;
  const maxTimeoutMs = x402.max_timeout_secs * 1000;
  const openMax = x402.open_payments_per_payer;
  const bodyBytesMax = x402.body_limit_bytes;
  const { waitMsMax = WAIT_MS_MAX } = options.results ?? {};
  const offerSettings = toOfferSettings(x402);
  const statusUrlOf = (callId: string) => `${x402.public_url}/x402/calls/${callId}`;

  // What it stands on: the queue, the journal, chains, facilitators and rates.
  const partition = partitionOf(redis);
  const log = tellFollowers(options.log, { partition, service: "x402", clock });
  warnIfPortable(log);
  const ingress = openIngress("x402", partition, options);
  const { largePartition, admission, beginWrite, firstCheck, isUsable, pressure, bodies, close } = ingress;
  const { results, waits, streams, redisTime, unsettledBytesMax } = ingress;
  const partyOf = (req: IncomingMessage) => addressKey(ingress.clientAddressOf(req));
  const journal = createPaymentJournal(partition, largePartition);
  const rates = createRates({ tokens: x402.accepted_tokens, partition, clock, log });
  const chains = createChains(x402, { clock, log });
  const chainOf = ({ terms }: Payment) => chains.of(terms);
  const facilitators = createFacilitators({
    facilitators: x402.facilitators,
    authorize,
    onKinds: (offerable) => logTokenKinds(offerable),
    verifyTimeoutMs: x402.facilitator_timeout_secs * 1000,
    settleTimeoutMs,
    clock,
    log,
  });

  // What is sold, and to whom.
  const sellable = toCatalog(x402, prices, rates.of, chains.isSound, facilitators.offerable);
  const catalog = isDrained ? toDrained(sellable) : sellable;
  const logTokenKinds = createLogTokenKinds(catalog.tokens, log);
  const readOperatorQuote = createReadOperatorQuote({
    operators: x402.quote_operators,
    domain: x402.quote_domain,
    metadataPrefix,
    clock: redisTime,
  });
  const hosts = x402.callback_hosts ?? [];
  const assertReceiverOpen = (receiver: string) => admission.assertReceiverOpen(receiver);
  const callbackFor = createCallbackFor(createReadCallback({ metadataPrefix, hosts, assertReceiverOpen }));
  const requestedJob = createRequestedJob(catalog, readOperatorQuote, callbackFor);
  const isPermittedCaller = createIsPermittedCaller({ clock });
  const authorizeCaller = createCallerPolicy({ x402, metadataPrefix, clock: redisTime, isPermittedCaller });

  // Who may have the result of a call.
  const tokens = createResultTokens(toTokenSecrets(options));
  const provesByToken = createProvesByToken(tokens);
  const signIn = createSignIn(x402, { journal, chainOf: chains.of, partition, partyOf, clock, redisTime });
  const proves: Proves = async (req, callId) =>
    (await provesByToken(req, callId)) || signIn.isPayer(req, callId);

  // A payment, from its header to its call.
  const readPaidRequest = createReadPaidRequest({ catalog, admission, bodies, partyOf });
  const findKnown = createFindKnown(journal);
  const knownOutcome = createKnownOutcome({ journal, clock, patienceMs: settleTimeoutMs });
  const verifyPayment = createVerifyPayment(facilitators, log);
  /** What dry-runs use up of a payer's verifies, and of an address' slow checks, is not missed by payments. */
  const checkIn = (manner: Manner, assertFits: AssertFits) => {
    const { unpaid_verifies_per_payer: perPayer, unpaid_verifies_per_address: perAddress } = x402;
    const allowances = createUnpaidAllowances(perPayer, perAddress, clock);
    const { ofSigners } = allowances;
    return createCheckPayment({
      requestedJob,
      callbackFor,
      admission,
      askSigner: createAskSigner({ chainOf: chains.of, ofSigners, clock }),
      assertFits,
      authorizeCaller,
      verify: createVerifyAtLimits({ verifyPayment, allowances, clock }),
      sinceOf: chains.sinceOf,
      offerSettings,
      bodyBytesMax,
      manner,
      ...{ clock, redisTime },
    });
  };
  const review = createReview({ journal, log });
  const enqueueSettled = createEnqueueSettled({ journal, beginWrite, review, log });
  const confirmSettlement = createConfirmSettlement({ chainOf, clock });
  const claim = createClaimPayment({ journal, beginWrite, openMax, unsettledBytesMax, clock });
  const settling = {
    ...{ journal, facilitators, confirmSettlement, enqueueSettled, beginWrite, chainOf, maxTimeoutMs },
    ...{ clock, log },
  };
  const settle = createSettle(settling);

  // The routes.
  const refusals = createRefusalLog(log, "payment.refused");
  const challenge = createChallenge({
    requestedJob,
    narrowOffers: createNarrowOffers(catalog.tokens, x402.max_offers),
    isQuoteUsed: journal.isQuoteUsed,
    offerSettings,
    headers: CORS_HEADERS,
    clock: redisTime,
    log,
  });
  const payJob = createPayJob({
    readPaidRequest,
    findKnown,
    knownOutcome,
    paymentsInFlight: createPaymentsInFlight(bodyBytesMax),
    check: countingReceivers(
      checkIn(PAID, createAssertFits(clock, { isProven: true })),
      createAdmitReceiver(partition, options.limits.callbackReceiversMax),
    ),
    claim,
    settle,
    untilDecided: createUntilDecided(journal),
    noteSpent: createNoteSpent({ spentElsewhere: createSpentElsewhere(partition), clock: redisTime, log }),
    statusUrlOf,
    payersResult: createPayersResult({ tokens, proves, statusUrlOf, waits, waitMsMax, clock }),
    metadataPrefix,
    ...{ clock, redisTime, log },
  });
  const dryRunManner = createDryRunManner();
  const assertFitsDry = createAssertFits(clock, { isProven: false });
  const dryRun = createDryRun({
    catalog,
    requestedJob,
    readPaidRequest,
    findKnown,
    knownOutcome,
    check: checkIn(dryRunManner, assertFitsDry),
    manner: dryRunManner,
    admission,
    assertFits: assertFitsDry,
    authorizeCaller,
    journal,
    openMax,
    bodyBytesMax,
    bodies,
    partyOf,
  });
  let isStarting = true;
  const readiness = (): Readiness => {
    const { ready, checks } = admission.readiness();
    const shared = toSharedChecks(x402, facilitators, chains, rates);
    return { ready: ready && !isStarting, checks: { ...checks, starting: isStarting, ...shared } };
  };
  const handler = createHandler({
    challenge,
    payJob,
    dryRun,
    listJobs: createListJobs(catalog, x402.public_url),
    priceOf: (ids) => toPriceAnswer(catalog.sold(ids), x402.public_url),
    schemaOf: (ids) => toSchemaAnswer(catalog.sold(ids)),
    callStatusOf: createCallStatus({ journal, results, proves }),
    answerResult: createCallResult({ journal, results, provesByToken, signIn }),
    watchCall: createWatchCall({ journal, streams, proves, partyOf }),
    refuse: createRefuse({ challenge, requestedJob, statusUrlOf, clock, refusals }),
    answerCallbackKeys: createAnswerCallbackKeys(partition),
    readiness,
    metadataPrefix,
    clock,
  });

  // What is still open, on any replica.
  const registry = openRegistry(partition);
  const reconcile = createReconcile({
    ...settling,
    review,
    isQueued: async ({ id, terms }) => (await registry.find(id, paidQueueOf(terms))) !== undefined,
    settleTimeoutMs,
  });
  const reconciler = startReconciler({
    reconcile,
    journal,
    partition,
    isUsable,
    settleTimeoutMs,
    clock,
    log,
  });
  const readRates = () => rates.start();
  const sharedRates = firstCheck.then(readRates, readRates); // Redis has what another replica has read
  const checked = Promise.all([chains.start(), facilitators.start(), sharedRates]).then(() => {
    isStarting = false;
  });
  const started = Promise.all([firstCheck, checked]).then(() => {});
  started.catch(() => {}); // its host may look at it later, or never

  return {
    handler,
    readiness,
    firstCheck: started,
    pressure,
    bodyBytes: bodies.bytes,
    resultWrites: ingress.resultWrites,
    waiting: waits.count,
    streaming: streams.count,
    drain: ingress.drain,
    stop: ingress.stop,
    rates: rates.observed,
    async close() {
      challenge.flush();
      refusals.flush();
      await reconciler.stop();
      rates.close();
      await Promise.all([facilitators.close(), chains.close()]);
      log.stop();
      close();
    },
  };
}

/** Without secrets of their own the tokens are made by what signs the quotes, which every gateway has too. */
function toTokenSecrets({ x402, results }: ComposedOptions) {
  return [...(results?.secrets ?? []), ...x402.quote_secret] as [Secret, ...Secret[]];
}
