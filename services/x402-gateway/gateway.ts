import type { IncomingMessage } from "node:http";
import type { JobPricingFile, X402File } from "../../config/schema/files.ts";
import { storedBytesOf } from "../../shared/call/job-call.ts";
import { jobKey } from "../../shared/call/job-ids.ts";
import { createResultTokens } from "../../shared/call/results/token.ts";
import { warnIfPortable } from "../../shared/chain/secp256k1.ts";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import { type PosternToml, toConnectionLimits } from "../../shared/config/postern-toml.ts";
import { toReceiptKeys } from "../../shared/config/receipt-keys.ts";
import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import type { Readiness } from "../../shared/http/readiness.ts";
import { createRefusalLog } from "../../shared/http/refusal-log.ts";
import { createResultTokenCheck } from "../../shared/ingress/ask-result.ts";
import { callbackKeysRoute } from "../../shared/ingress/callback-keys.ts";
import { type Gateway, openIngress } from "../../shared/ingress/ingress.ts";
import { createAdmitReceiver } from "../../shared/ingress/named-receivers.ts";
import { createReadCallback } from "../../shared/ingress/read-callback.ts";
import type { CallsHost, PartKind } from "../../shared/part/host.ts";
import {
  functionOption,
  mountPath,
  openPart,
  type ServedOptions,
  tableOption,
} from "../../shared/part/options.ts";
import { createServedPart, type ServedPart } from "../../shared/part/part.ts";
import { PaymentJournal } from "../../shared/payments/journal.ts";
import { createSpentElsewhere } from "../../shared/payments/spent-elsewhere.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { toIso } from "../../shared/platform/time/iso.ts";
import { createRates, type ObservedRate, type Rates } from "../../shared/pricing/rates/rates.ts";
import { readX402, type X402Config } from "../../shared/pricing/read-x402.ts";
import { unauditedIn } from "../../shared/redis/deployment.ts";
import { extraMs } from "../../shared/redis/large.ts";
import { RELEASE } from "../../shared/redis/layout.ts";
import { byCall, logOf } from "../../shared/redis/partition.ts";
import { publishToFollowers } from "../../shared/telemetry/events/publish.ts";
import type { Authorize } from "./facilitator/authorize.ts";
import { Facilitators } from "./facilitator/pool.ts";
import { createLogTokenKinds, toCatalog, toClosedWhileUnaudited, toDrained } from "./offer/catalog.ts";
import {
  createEarlierAmounts,
  type EarlierOffers,
  removedTokens,
  toEarlierOffers,
} from "./offer/earlier-offers.ts";
import { createNarrowOffers } from "./offer/narrow-offers.ts";
import { toOfferSettings } from "./offer/offer.ts";
import { OperatorQuotes } from "./offer/operator-quote.ts";
import { RequestedJobs } from "./offer/requested-jobs.ts";
import { createNoteSpent } from "./payment/already-spent.ts";
import { createCallerNonces } from "./payment/caller-nonces.ts";
import { Chains, type NodeTimes } from "./payment/chains.ts";
import { PAID_MODE, PaymentCheck } from "./payment/check.ts";
import { createAssertFits } from "./payment/input-check.ts";
import { KnownPayments } from "./payment/known-payments.ts";
import { PaidRequests } from "./payment/paid-request.ts";
import { createPayersResult } from "./payment/payers-result.ts";
import { createReceipts } from "./payment/receipts.ts";
import { Settler } from "./payment/settle.ts";
import { CallerPolicy, createIsPermittedCaller } from "./policy/caller-policy.ts";
import { startReconciler } from "./reconciler/reconciler.ts";
import { paidCallRoutes } from "./routes/call.ts";
import { createChallenge } from "./routes/challenge.ts";
import { discoveryRoutes } from "./routes/discovery.ts";
import { DryRun } from "./routes/dry-run.ts";
import { createListJobs } from "./routes/list-jobs.ts";
import { PayJob } from "./routes/pay-job.ts";
import { toPriceAnswer } from "./routes/price.ts";
import { receiptRoutes } from "./routes/receipts.ts";
import { toSchemaAnswer } from "./routes/schema.ts";
import { CORS_HEADERS, createHandler } from "./server.ts";
import { createSignIn } from "./sign-in/sign-in.ts";

export type { JobPricingFile, PosternFile, X402File } from "../../config/schema/files.ts";
export type { Listening, Readiness } from "../../shared/part/part.ts";
export type { Logger } from "../../shared/platform/log/logger.ts";
export type { Authorize, FacilitatorCall } from "./facilitator/authorize.ts";

export interface X402GatewayOptions extends ServedOptions {
  /** Content of `x402.toml`. */
  x402: X402File;
  /** Content of `job_pricing.toml`: the jobs for sale and their prices. */
  job_pricing: JobPricingFile;
  /**
   * Returns headers for one request to a facilitator, such as a signed token. They are added to the headers in `x402`. The
   * timeout of the request includes the time that this function takes. If its promise rejects, or resolves after the timeout, the
   * request is not sent.
   */
  authorize?: Authorize;
}

export type X402Gateway = ServedPart & {
  /** Returns the known rate of each token. */
  rates(): ObservedRate[];
};

/** @internal */
export const X402: PartKind<X402Config> = {
  kind: "x402",
  need: "requests",
  hasCalls: true,
  read: (tables, env) => readX402(tables, env, "gateway"),
};

/** Creates a payment gateway for a program of your own. Throws `start.config_invalid`, which names every option that is wrong. */
export function createX402Gateway(options: X402GatewayOptions): X402Gateway {
  const own = {
    x402: tableOption,
    job_pricing: tableOption,
    authorize: functionOption.optional(),
    mountPath,
  };
  const host = openPart(options, X402, own);
  const gateway = composeX402Gateway({ ...host, authorize: options.authorize });
  return { ...createServedPart(gateway, host, options.mountPath), rates: gateway.rates };
}

type Options = CallsHost & {
  x402: X402Toml;
  prices: PriceList;
  authorize?: Authorize | undefined;
  /** Whether this gateway drains its deployment. It sells nothing then, but still answers earlier buyers. */
  isDrained?: boolean | undefined;
  /** Offers that earlier gateways of this process made before a reload of the configuration, and that may not have expired. */
  earlier?: readonly EarlierOffers[] | undefined;
  nodeTimes?: NodeTimes;
};

/** @internal */
export type ComposedGateway = Gateway & {
  /** Returns the known rate of each token. */
  rates(): ObservedRate[];
  /**
   * Returns the offers that can still be paid, newest first. After a reload of the configuration, the next gateway of this
   * process gets them as `earlier`.
   */
  offers(): EarlierOffers[];
};

/**
 * @internal Composes the gateway from its parts. Facts on which all replicas must agree are in Redis or on the chain, not in this
 * process.
 */
export function composeX402Gateway(options: Options): ComposedGateway {
  const { x402, prices, postern, partitions, authorize, isDrained, clock = systemClock } = options;
  const metadataPrefix = postern.metadata_prefix;
  const settleTimeoutMs = x402.settle_timeout_secs * 1000;
  const maxTimeoutMs = x402.max_timeout_secs * 1000;
  const openMax = x402.open_payments_per_payer;
  const { earlier = [] } = options;
  const earlierAmounts = createEarlierAmounts(earlier, clock);
  const offerSettings = { ...toOfferSettings(x402), earlierAmounts };
  const statusUrlOf = (callId: string) => `${x402.public_url}/x402/calls/${callId}`;

  // The base: queue, journal, chains, facilitators and rates.
  const { control } = partitions;
  const log = publishToFollowers(options.log, { partition: control, service: "x402", clock });
  warnIfPortable(log);
  const ingress = openIngress("x402", options);
  const { admission, firstCheck, bodies, results, waits, waitMsMax, streams, redisTime } = ingress;
  const clientKeyOf = (req: IncomingMessage) => addressKey(ingress.clientAddressOf(req));
  const journals = ingress.partitions.map(({ partition, large }) => new PaymentJournal(partition, large));
  const journal = byCall(
    journals.map((each) => ({ findWithoutCall: (callId: string) => each.findWithoutCall(callId) })),
  );
  const callerNonces = createCallerNonces(ingress.partitions);
  const rates = createRates({ tokens: x402.accepted_tokens, partition: control, clock, log });
  const removed = removedTokens(earlier, x402);
  const chains = new Chains([...x402.accepted_tokens, ...removed], {
    nodeTimes: options.nodeTimes,
    clock,
    log,
  });
  const facilitators = new Facilitators({
    facilitators: x402.facilitators,
    authorize,
    onKinds: (offerable) => logTokenKinds(offerable),
    verifyTimeoutMs: x402.facilitator_timeout_secs * 1000,
    settleTimeoutMs,
    clock,
    log,
  });

  // The jobs for sale, and their policies.
  const isTokenValid = (token: AcceptedToken) => chains.isTokenValid(token);
  const offerable = () => facilitators.offerable();
  const sellable = toCatalog(x402, prices, { rateOf: rates.of, isTokenValid, offerable, removed });
  const unauditedSince = () => options.deployments && unauditedIn(options.deployments);
  const audited = toClosedWhileUnaudited(sellable, () => unauditedSince() !== undefined);
  const catalog = isDrained ? toDrained(sellable) : audited;
  const logTokenKinds = createLogTokenKinds(catalog.tokens, log);
  const operatorQuotes = new OperatorQuotes({
    operators: x402.quote_operators,
    domain: x402.quote_domain,
    metadataPrefix,
    clock: redisTime,
  });
  const hosts = x402.callback_hosts ?? [];
  const assertReceiverOpen = (receiver: string) => admission.assertReceiverOpen(receiver);
  const readCallback = createReadCallback({ metadataPrefix, hosts, assertReceiverOpen });
  const requestedJobs = new RequestedJobs({ catalog, operatorQuotes, readCallback });
  const isPermittedCaller = createIsPermittedCaller({ clock });
  const callerPolicy = new CallerPolicy({ x402, metadataPrefix, clock: redisTime, isPermittedCaller });

  // Access to the results of calls. If no token secrets are configured, result tokens are signed with the quote secrets, which
  // every gateway has.
  const secrets = [...ingress.tokenSecrets, ...x402.quote_secret] as [Secret, ...Secret[]];
  const tokens = createResultTokens(secrets);
  const mayReadByToken = createResultTokenCheck(tokens);
  const signIn = createSignIn(x402, {
    mayReadByToken,
    journal,
    chains,
    partitions,
    clientKeyOf,
    clock,
    redisTime,
  });
  const { refusalOf } = signIn;

  // The steps of a payment, from its header to its call.
  const keys = x402.receipt_keys && toReceiptKeys(x402.receipt_keys);
  const receipts = keys && createReceipts(keys, { issuer: x402.public_url, clock: redisTime });
  const paidRequests = new PaidRequests({ catalog, admission, bodies, clientKeyOf });
  const knownPayments = new KnownPayments({ journals, operatorQuotes, clock, waitMs: settleTimeoutMs });
  const checkParts = {
    x402,
    requestedJobs,
    admission,
    chains,
    facilitators,
    callerPolicy,
    offerSettings,
    clock,
    redisTime,
  };
  const settling = { chains, facilitators, maxTimeoutMs, clock, log };
  const settlers = ingress.partitions.map(({ partition, durable, beginWrite, unsettledBytesMax }, index) => {
    const own = { partition, beginWrite, journal: journals.all[index] as PaymentJournal };
    const settler = new Settler({ ...settling, ...own, callerNonces, openMax, unsettledBytesMax });
    return { ...own, settler, isUsable: () => durable.isUsable };
  });

  // The routes.
  const challenge = createChallenge({
    requestedJobs,
    narrowOffers: createNarrowOffers(catalog.tokens, x402.max_offers),
    journals,
    offerSettings,
    headers: CORS_HEADERS,
    clock: redisTime,
    log,
  });
  const payJob = new PayJob({
    paidRequests,
    knownPayments,
    paymentCheck: new PaymentCheck({
      ...checkParts,
      assertFits: createAssertFits(clock, { isPaid: true }),
      mode: PAID_MODE,
    }),
    admitReceiver: createAdmitReceiver(partitions, postern.limits.callback_receivers_max),
    settlers: settlers.map(({ settler }) => settler),
    noteSpent: createNoteSpent({ spentElsewhere: createSpentElsewhere(control), clock: redisTime, log }),
    payersResult: createPayersResult({ tokens, refusalOf, statusUrlOf, waits, waitMsMax, receipts, clock }),
    bodyBytesMax: x402.body_limit_bytes,
    metadataPrefix,
    clock,
    redisTime,
    log,
  });
  const dryRun = new DryRun({
    ...checkParts,
    catalog,
    paidRequests,
    knownPayments,
    journals,
    callerNonces,
    bodies,
    clientKeyOf,
  });
  let isStarting = true;
  const readiness = (): Readiness => {
    const { ready, checks } = admission.readiness();
    const shared = toSharedChecks(x402, facilitators, chains, rates);
    const sales = salesCheck(unauditedSince());
    return { ready: ready && !isStarting, checks: { ...checks, starting: isStarting, sales, ...shared } };
  };
  const refusals = createRefusalLog(log, "payment.refused");
  const handler = createHandler({
    challenge,
    payJob,
    dryRun,
    listJobs: createListJobs(catalog, x402.public_url),
    priceOf: (ids) => toPriceAnswer(catalog.get(ids), x402.public_url),
    schemaOf: (ids) => toSchemaAnswer(catalog.get(ids)),
    discovery: discoveryRoutes({
      x402,
      jobs: catalog.onSale.flatMap((ids) => prices.get(jobKey(ids)) ?? []),
      metadataPrefix,
      version: RELEASE,
    }),
    callRoutes: [
      ...paidCallRoutes({ journal, results, streams, signIn, clientKeyOf }),
      ...(receipts ? receiptRoutes({ receipts, journal, results, signIn }) : []),
    ],
    requestedJobs,
    statusUrlOf,
    refusals,
    callbackKeysRoute: callbackKeysRoute(control),
    readiness,
    metadataPrefix,
    clock,
  });

  // Each partition has a reconciler for its open payments. Any replica may have claimed them.
  const reconcilers = settlers.map((own) =>
    startReconciler({ ...settling, ...own, settleTimeoutMs, log: logOf(own.partition, log) }),
  );
  const readRates = () => rates.start();
  // Starts after the first check of Redis, which has the rates that other replicas have read.
  const sharedRates = firstCheck.then(readRates, readRates);
  const checked = Promise.all([chains.start(), facilitators.start(), sharedRates]).then(() => {
    isStarting = false;
  });
  const started = Promise.all([firstCheck, checked]).then(() => {});
  // A host program may await this promise late or never, and Node would report its rejection as unhandled.
  started.catch(() => {});

  return {
    ...ingress.gateway,
    handler,
    http: {
      requestTimeoutMs: x402.request_timeout_secs * 1000,
      refusalHeaders: CORS_HEADERS,
      ...toConnectionLimits(postern),
    },
    readiness,
    firstCheck: started,
    graceMs: graceMsOf(x402, postern),
    rates: rates.observed,
    offers() {
      const now = clock();
      return [toEarlierOffers(x402, sellable, now), ...earlier.filter(({ until }) => now < until)];
    },
    async close() {
      challenge.flush();
      refusals.flush();
      await Promise.all(reconcilers.all.map((each) => each.stop()));
      rates.close();
      await Promise.all([facilitators.close(), chains.close()]);
      log.stop();
      ingress.close();
    },
  };
}

function salesCheck(since: number | undefined): string {
  return since === undefined ? "open" : `closed until an audit covers all blocks since ${toIso(since)}`;
}

/**
 * Returns how long requests in flight can take at most to end, which is how long a stopping gateway waits for them. A request
 * verifies and settles its payment, and writes twice to Redis.
 */
function graceMsOf(x402: X402Toml, { limits }: PosternToml): number {
  const writingMs = limits.enqueue_timeout_ms + extraMs(storedBytesOf(x402.body_limit_bytes));
  return (x402.facilitator_timeout_secs + x402.settle_timeout_secs) * 1000 + 2 * writingMs;
}

/**
 * Reports the state of the services that all replicas share: facilitators, chains and rate sources. A failure of such a service
 * does not make this replica unready. It would make all replicas unready at once, and a load balancer could send requests to
 * none.
 */
function toSharedChecks(
  { trust_facilitator }: X402Toml,
  facilitators: Facilitators,
  chains: Chains,
  rates: Rates<AcceptedToken>,
) {
  return {
    facilitators: facilitators.available(),
    chains: chains.available(),
    rates: rates.observed().map(({ network, asset, symbol, value, failure }) => {
      const why = failure && { reason: failure.reason, failed_at: new Date(failure.at).toISOString() };
      return { network, asset, symbol, ok: value !== undefined, ...why };
    }),
    trust_facilitator,
  };
}
