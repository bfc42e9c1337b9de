import type { IncomingMessage, RequestListener } from "node:http";
import type { EndpointToml, WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { createAccept } from "../../shared/gateway/accept.ts";
import type { Admission } from "../../shared/gateway/admission.ts";
import { type Gateway, type IngressOptions, openIngress } from "../../shared/gateway/ingress.ts";
import { rawPath } from "../../shared/http/headers.ts";
import { bareApp, onlyGet, probes, serve } from "../../shared/http/ops.ts";
import { createClaims } from "../../shared/queue/enqueue.ts";
import { createRecordRejected } from "../../shared/rejected/record.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { createMakeCall } from "./call.ts";
import { createCredential } from "./credential.ts";
import { createHandshakes, type TakeSecret } from "./handshake.ts";
import { createReceive, type Endpoint, type Receive } from "./receive.ts";
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
  const { redis, log, clock = systemClock } = options;
  const { admission, add, beginWrite, firstCheck, pressure, bodies, close } = openIngress("webhook", options);
  const accept = createAccept({ add, claims: createClaims(redis), beginWrite, clock });
  const receive = createReceive({ admission, accept, clock, log });
  const endpoints = toEndpoints(options, clock, async () => false);
  const record = createRecordRejected({ redis, endpoints: endpoints.size, clock });
  const notFound = createOnUnknownPath({ paths: endpoints.keys(), record, addressOf, log });
  return {
    handler: createHandler(endpoints, receive, admission, notFound),
    readiness: () => admission.readiness(),
    firstCheck,
    pressure,
    bodyBytes: bodies.bytes,
    drain: () => admission.drain(),
    stop: () => admission.stop(),
    close,
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

function addressOf(req: IncomingMessage): string {
  return req.socket.remoteAddress ?? "unknown";
}

/** The endpoints by path, with their defaults resolved. */
function toEndpoints(
  { webhooks, serviceId, metadataPrefix }: GatewayOptions,
  clock: Clock,
  takeSecret: TakeSecret,
): ReadonlyMap<string, Endpoint> {
  const toEndpoint = (config: EndpointToml): Endpoint => ({
    config,
    credential: createCredential(config, config.body_limit_bytes ?? webhooks.body_limit_bytes, clock),
    handshakes: createHandshakes(config, takeSecret),
    makeCall: createMakeCall(config, { serviceId, metadataPrefix, clock }),
    windowMs: (config.idempotency_window_secs ?? webhooks.idempotency_window_secs) * 1000,
  });
  return new Map(webhooks.endpoints.map((config) => [config.path, toEndpoint(config)]));
}
