import type { IncomingMessage, RequestListener } from "node:http";
import type { WebhooksFile } from "../../config/schema/files.ts";
import { storedBytesOf } from "../../shared/call/job-call.ts";
import type { ResultTokens } from "../../shared/call/results/token.ts";
import { type EndpointToml, waitSecsOf } from "../../shared/config/endpoint-toml.ts";
import { id } from "../../shared/config/fields.ts";
import { type PosternToml, toConnectionLimits } from "../../shared/config/postern-toml.ts";
import { type Config, readWebhooks } from "../../shared/config/read-webhooks.ts";
import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { getText as fetchTextOf } from "../../shared/http/get-text.ts";
import { rawPath } from "../../shared/http/headers.ts";
import { createAddressList } from "../../shared/http/ip/address-list.ts";
import { serveProbes } from "../../shared/http/ops.ts";
import { setRoute } from "../../shared/http/request-duration.ts";
import { type Route, serveRoutes } from "../../shared/http/router.ts";
import { inServerSpan } from "../../shared/http/server-span.ts";
import type { Admission } from "../../shared/ingress/admission.ts";
import { createResultTokenCheck, type ResultAccess, tokensOf } from "../../shared/ingress/ask-result.ts";
import { CALL_ID_SHAPES } from "../../shared/ingress/call-routes.ts";
import { callbackKeysRoute } from "../../shared/ingress/callback-keys.ts";
import { type Gateway, openIngress } from "../../shared/ingress/ingress.ts";
import { createAdmitReceiver } from "../../shared/ingress/named-receivers.ts";
import { createTakeSecret, type TakeSecret } from "../../shared/ingress/opened-endpoints.ts";
import { createReadCallback } from "../../shared/ingress/read-callback.ts";
import type { CallsHost, PartKind } from "../../shared/part/host.ts";
import { mountPath, openPart, type ServedOptions, tableOption } from "../../shared/part/options.ts";
import { createServedPart, type ServedPart } from "../../shared/part/part.ts";
import { createEventCounter } from "../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { type Clock, systemClock } from "../../shared/platform/time/clock.ts";
import { extraMs } from "../../shared/redis/large.ts";
import { publishToFollowers } from "../../shared/telemetry/events/publish.ts";
import { createRecordRejected } from "../../shared/telemetry/rejected/record.ts";
import { createAccept } from "./accept.ts";
import { createAuthentication } from "./authenticate.ts";
import { resultPathOf, webhookCallRoutes } from "./call-routes.ts";
import type { CheckDeps } from "./check.ts";
import { type CheckScheduler, createCheckScheduler } from "./check-scheduler.ts";
import { createEndpointStates } from "./endpoint-states.ts";
import { createEnqueue } from "./enqueue.ts";
import { DocumentsOfEndpoints } from "./fetched-documents.ts";
import { createHandshakes } from "./handshake.ts";
import { createMakeCall } from "./make-call.ts";
import { createRateLimits, type RateLimits } from "./rate-limit.ts";
import { createReceive, type Endpoint, type Receive } from "./receive.ts";
import { createRefuse } from "./refuse.ts";
import { createSendTests } from "./send-tests.ts";
import { createSnsConfirmation } from "./sns-check.ts";
import { createOnUnknownPath } from "./unknown-path.ts";

export type { PosternFile, WebhooksFile } from "../../config/schema/files.ts";
export type { Listening, Readiness } from "../../shared/part/part.ts";
export type { Logger } from "../../shared/platform/log/logger.ts";

export interface WebhooksGatewayOptions extends ServedOptions {
  /** Content of `webhooks.toml`. */
  webhooks: WebhooksFile;
  /** Service id of all calls. The runner receives it. Default: 0. */
  serviceId?: number;
}

export type WebhooksGateway = ServedPart;

/** @internal */
export const WEBHOOKS: PartKind<Config> = {
  kind: "webhooks",
  need: "requests",
  hasCalls: true,
  read: (tables, env) => readWebhooks(tables, env, "gateway"),
};

/**
 * Creates a webhooks gateway inside your own program. Throws `start.config_invalid`, which names every wrong option.
 */
export function createWebhooksGateway(options: WebhooksGatewayOptions): WebhooksGateway {
  const own = { webhooks: tableOption, serviceId: id.optional(), mountPath };
  const host = openPart(options, WEBHOOKS, own);
  const { serviceId, mountPath: mountedAt } = options;
  return createServedPart(
    composeWebhooksGateway({ ...host, serviceId, mountPath: mountedAt }),
    host,
    mountedAt,
  );
}

type Options = CallsHost & {
  webhooks: WebhooksToml;
  serviceId?: number | undefined;
  /** Path below which the host program's server mounts the handler, if the gateway runs in another program. */
  mountPath?: string | undefined;
  /**
   * Fetches a document that verifies deliveries, such as a certificate, or a URL that confirms a subscription. Rejects
   * with the reason.
   */
  getText?: (url: string) => Promise<string>;
  /** Trusted certificate authorities in PEM, instead of Node's. */
  rootCertificates?: readonly string[];
  /** Documents of the gateway that this process had before it reloaded its configuration. */
  earlierDocuments?: DocumentsOfEndpoints | undefined;
};

/** @internal */
export type ComposedGateway = Gateway & { documents: DocumentsOfEndpoints };

/**
 * Limits on the fetch of a document or URL. The timeout leaves enough time for the answer to the request that waits for
 * the fetch: Amazon SNS waits 15 s for an answer.
 */
const FETCH_LIMITS = { bytesMax: 256 * 1024, timeoutMs: 5000 };

function fetchText(url: string): Promise<string> {
  return fetchTextOf(new URL(url), FETCH_LIMITS);
}

/** @internal Composes the gateway from its parts. All state that replicas must share is in Redis. */
export function composeWebhooksGateway(options: Options): ComposedGateway {
  const { webhooks, postern, partitions, serviceId = 0, clock = systemClock } = options;
  const partition = partitions.control;
  const log = publishToFollowers(options.log, {
    partition,
    service: "webhooks",
    about: { serviceId },
    clock,
  });
  const states = createEndpointStates(partitions);
  const ingress = openIngress("webhook", options, async (index) => {
    if (index > 0) return states.sync(index, ingress.partitions.control.durable);
    await Promise.all([states.read(), sendTests()]);
  });
  const { admission, bodies, results, waits, streams, redisTime, clientAddressOf: addressOf } = ingress;
  const accepts = ingress.partitions.map(({ partition: small, large, beginWrite }) =>
    createAccept({ enqueue: createEnqueue(small, large), beginWrite }),
  );
  const perMinute = webhooks.refusals_per_minute;
  const refusals = { perSecond: perMinute / 60, burst: perMinute };
  const limits = createRateLimits({ partitions, log, refusals });
  const tokens = tokensOf(ingress.tokenSecrets);
  const getText = options.getText ?? fetchText;
  const documents = new DocumentsOfEndpoints({ getText, clock, log }, options.earlierDocuments);
  const endpoints = toEndpoints(options, {
    clock,
    log,
    getText,
    documents,
    rootCertificates: options.rootCertificates,
    redisTime,
    limits,
    scheduler: createCheckScheduler(),
    admission,
    takeSecret: createTakeSecret(partition),
    accessOf: createAccessOf(options, tokens),
  });
  const record = createRecordRejected({ partition, endpoints: endpoints.size, clock: redisTime });
  const overLimit = createEventCounter(log, "webhook.refusals_limited", "warn");
  const unlogged = createEventCounter(log, "webhook.refusals_unlogged", "warn");
  const refuse = createRefuse({ limits, record, log, overLimit, unlogged });
  const openHandshakes = createEventCounter(log, "webhook.handshake_answered");
  const admitReceiver = createAdmitReceiver(partitions, postern.limits.callback_receivers_max);
  const receive = createReceive({
    admission,
    admitReceiver,
    bodies,
    accept: (call, options) => accepts.of(call.id)(call, options),
    heldAtOf: states.heldAtOf,
    refuse,
    waits,
    addressOf,
    openHandshakes,
    clock,
    log,
  });
  const sendTests = createSendTests(partition, {
    endpoints,
    receive,
    redisTime,
    log,
  });
  const notFound = createOnUnknownPath({ paths: endpoints.keys(), record, addressOf, log });
  const routes = [
    ...webhookCallRoutes({ results, streams, mayReadResult: createResultTokenCheck(tokens), addressOf }),
    callbackKeysRoute(partition),
  ];
  return {
    ...ingress.gateway,
    documents,
    handler: createHandler({ endpoints, receive, routes, admission, notFound }),
    http: { requestTimeoutMs: webhooks.request_timeout_secs * 1000, ...toConnectionLimits(postern) },
    readiness: () => admission.readiness(),
    firstCheck: ingress.firstCheck,
    graceMs: graceMsOf(webhooks, postern),
    async close() {
      overLimit.flush();
      unlogged.flush();
      openHandshakes.flush();
      log.stop();
      ingress.close();
    },
  };
}

/** Returns the time in ms for which a shutdown waits for requests in flight: long enough to write the largest call. */
function graceMsOf({ body_limit_bytes, endpoints }: WebhooksToml, { limits }: PosternToml): number {
  const bytesMax = Math.max(...endpoints.map((endpoint) => endpoint.body_limit_bytes ?? body_limit_bytes));
  return limits.enqueue_timeout_ms + extraMs(storedBytesOf(bytesMax)) + 5000;
}

type HandlerDeps = {
  endpoints: ReadonlyMap<string, Endpoint>;
  receive: Receive;
  /** Routes besides the endpoints and the probes. */
  routes: readonly Route[];
  admission: Admission;
  notFound: (req: IncomingMessage) => void;
};

/**
 * Looks up configured paths in the raw request target, without its query. It does not decode, fold case or ignore a
 * trailing slash. Endpoints are looked up first because most requests are webhooks.
 */
function createHandler({ endpoints, receive, routes, admission, notFound }: HandlerDeps): RequestListener {
  const otherwise = serveProbes(() => admission.readiness(), {
    health: "/webhooks/health",
    onNotFound: notFound,
  });
  const others = serveRoutes(routes, { shapes: CALL_ID_SHAPES, otherwise });
  return (req, res) => {
    const endpoint = endpoints.get(rawPath(req.url ?? ""));
    if (endpoint === undefined) return others(req, res);
    const { path } = endpoint.config;
    setRoute(req, path);
    void inServerSpan({ req, res }, path, () => receive(req, res, endpoint));
  };
}

type AccessOf = (callId: string) => ResultAccess;

/**
 * Creates the function that returns the token and URL of a call's result. The URL is only a path, because the gateway
 * does not know its own host.
 */
function createAccessOf({ mountPath = "" }: Options, tokens: ResultTokens | undefined): AccessOf | undefined {
  if (tokens === undefined) return undefined;
  return (callId) => ({
    result_token: tokens.of(callId),
    result_url: `${mountPath}${resultPathOf(callId)}`,
  });
}

function toMs(secs: number | undefined): number | undefined {
  return secs === undefined ? undefined : secs * 1000;
}

type EndpointDeps = CheckDeps & {
  getText: (url: string) => Promise<string>;
  log: Logger;
  redisTime: Clock;
  limits: RateLimits;
  scheduler: CheckScheduler;
  admission: Admission;
  takeSecret: TakeSecret;
  accessOf: AccessOf | undefined;
};

/** Builds the endpoints by path, with their defaults resolved. */
function toEndpoints(
  { webhooks, postern, serviceId = 0 }: Options,
  { redisTime, limits, scheduler, admission, takeSecret, accessOf, getText, log, ...checks }: EndpointDeps,
): ReadonlyMap<string, Endpoint> {
  const metadataPrefix = postern.metadata_prefix;
  const toEndpoint = (config: EndpointToml): Endpoint => ({
    config,
    allowed: config.allow_ips && createAddressList(config.allow_ips),
    authentication: createAuthentication(config, {
      bodyLimitBytes: config.body_limit_bytes ?? webhooks.body_limit_bytes,
      scheduler,
      ...checks,
    }),
    handshakes:
      config.handshakes.length === 0
        ? undefined
        : createHandshakes(config, {
            admission,
            takeSecret,
            confirm:
              config.proof.by === "aws-sns"
                ? createSnsConfirmation(config, { getText, log, clock: checks.clock })
                : undefined,
          }),
    makeCall: createMakeCall(config, {
      serviceId,
      metadataPrefix,
      accessOf,
      newCallId: (job) => admission.newCallId(job),
      clock: redisTime,
      readCallback: createReadCallback({
        metadataPrefix,
        hosts: config.callback_hosts ?? [],
        assertReceiverOpen: (receiver) => admission.assertReceiverOpen(receiver),
      }),
    }),
    takeToken: limits.ofEndpoint({
      path: config.path,
      rate: config.rate_limit,
      ratePerAddress: config.rate_limit_per_address,
    }),
    accessOf: config.keep_result && config.answer.body === undefined ? accessOf : undefined,
    waitMs: toMs(waitSecsOf(config)),
    windowMs: (config.idempotency_window_secs ?? webhooks.idempotency_window_secs) * 1000,
  });
  return new Map(webhooks.endpoints.map((config) => [config.path, toEndpoint(config)]));
}
