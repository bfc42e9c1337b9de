import type { IncomingMessage, RequestListener } from "node:http";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { tellFollowers } from "../../shared/events/publish.ts";
import { createAccept } from "../../shared/gateway/accept.ts";
import type { Admission } from "../../shared/gateway/admission.ts";
import { type Gateway, type IngressOptions, openIngress } from "../../shared/gateway/ingress.ts";
import { createTakeSecret, type TakeSecret } from "../../shared/gateway/opened-endpoints.ts";
import { createRateLimits, type RateLimits } from "../../shared/gateway/rate-limit.ts";
import { rawPath } from "../../shared/http/headers.ts";
import { bareApp, onlyGet, probes, serve } from "../../shared/http/ops.ts";
import { createAddressList } from "../../shared/ip/address-list.ts";
import { createEventCounter } from "../../shared/log/event-counter.ts";
import { createEnqueue } from "../../shared/queue/enqueue.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { createRecordRejected } from "../../shared/rejected/record.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { createMakeCall } from "./call.ts";
import { createCredential } from "./credential.ts";
import { createHandshakes } from "./handshake.ts";
import { createReceive, type Endpoint, type Receive } from "./receive.ts";
import { createRefuse } from "./refuse.ts";
import { createOnUnknownPath } from "./unknown-path.ts";

/** Checks a `webhooks.toml` table: `webhooksToml(env).parse(table)`. */
export { webhooksToml } from "../../shared/config/webhooks-toml.ts";

export type GatewayOptions = IngressOptions & {
  webhooks: WebhooksToml;
  serviceId: number;
  metadataPrefix: string;
};

export type WebhooksGateway = Gateway & {
  /** Ends the gateway's timers. Call it last, when no more requests can arrive. */
  close(): void;
};

/** The webhooks gateway, to be mounted in any process. It holds no state that two replicas would have to share. */
export function createWebhooksGateway(options: GatewayOptions): WebhooksGateway {
  const { webhooks, redis, serviceId, clock = systemClock } = options;
  const partition = partitionOf(redis);
  const log = tellFollowers(options.log, { partition, service: "webhooks", about: { serviceId }, clock });
  const {
    admission,
    largePartition,
    beginWrite,
    firstCheck,
    pressure,
    bodies,
    clientAddressOf: addressOf,
    close,
  } = openIngress("webhook", partition, options);
  const accept = createAccept({ enqueue: createEnqueue(partition, largePartition), beginWrite });
  const perMinute = webhooks.refusals_per_minute;
  const refusals = { perSecond: perMinute / 60, burst: perMinute };
  const limits = createRateLimits({ partition, log, refusals, clock });
  const endpoints = toEndpoints(options, {
    clock,
    limits,
    admission,
    takeSecret: createTakeSecret(partition),
  });
  const record = createRecordRejected({ partition, endpoints: endpoints.size, clock });
  const overLimit = createEventCounter(log, "webhook.refusals_limited", "warn");
  const unlogged = createEventCounter(log, "webhook.refusals_unlogged", "warn");
  const refuse = createRefuse({ limits, record, log, overLimit, unlogged });
  const receive = createReceive({ admission, bodies, accept, refuse, addressOf, clock, log });
  const notFound = createOnUnknownPath({ paths: endpoints.keys(), record, addressOf, log });
  return {
    handler: createHandler(endpoints, receive, admission, notFound),
    readiness: () => admission.readiness(),
    firstCheck,
    pressure,
    bodyBytes: bodies.bytes,
    drain: () => admission.drain(),
    stop: () => admission.stop(),
    close() {
      overLimit.flush();
      unlogged.flush();
      log.stop();
      close();
    },
  };
}

/**
 * Configured paths are looked up in the raw request target: no decoding, no case folding, no trailing slash, the query
 * ignored. Express would cost more than the rest of a webhook; it serves only the other paths.
 */
function createHandler(
  endpoints: ReadonlyMap<string, Endpoint>,
  receive: Receive,
  admission: Admission,
  notFound: (req: IncomingMessage) => void,
): RequestListener {
  const app = bareApp();
  onlyGet(app, "/webhooks/health", (_req, res) => {
    res.type("text/plain").send("ok");
  });
  app.use(probes(() => admission.readiness()));
  const others = serve(app, notFound);

  return (req, res) => {
    if (admission.ending) res.setHeader("Connection", "close");
    const endpoint = endpoints.get(rawPath(req.url ?? ""));
    if (endpoint === undefined) others(req, res);
    else void receive(req, res, endpoint);
  };
}

type EndpointDeps = { clock: Clock; limits: RateLimits; admission: Admission; takeSecret: TakeSecret };

/** The endpoints by path, with their defaults resolved. */
function toEndpoints(
  { webhooks, serviceId, metadataPrefix }: GatewayOptions,
  { clock, limits, admission, takeSecret }: EndpointDeps,
): ReadonlyMap<string, Endpoint> {
  const toEndpoint = (config: EndpointToml): Endpoint => ({
    config,
    allowed: config.allow_ips && createAddressList(config.allow_ips),
    credential: createCredential(config, config.body_limit_bytes ?? webhooks.body_limit_bytes, clock),
    handshakes:
      config.handshakes.length === 0 ? undefined : createHandshakes(config, { admission, takeSecret }),
    makeCall: createMakeCall(config, { serviceId, metadataPrefix, clock }),
    takeToken: limits.ofEndpoint({
      path: config.path,
      rate: config.rate_limit,
      ratePerAddress: config.rate_limit_per_address,
    }),
    windowMs: (config.idempotency_window_secs ?? webhooks.idempotency_window_secs) * 1000,
  });
  return new Map(webhooks.endpoints.map((config) => [config.path, toEndpoint(config)]));
}
