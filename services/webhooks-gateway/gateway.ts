import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { createAccept } from "../../shared/gateway/accept.ts";
import { type Gateway, type IngressOptions, openIngress } from "../../shared/gateway/ingress.ts";
import { createClaims } from "../../shared/queue/enqueue.ts";
import { toEndpoints } from "./endpoints.ts";
import { createReceive } from "./receive.ts";
import { createHandler } from "./server.ts";

/** Checks a `webhooks.toml` table: `webhooksToml(env).parse(table)`. */
export { webhooksToml } from "../../shared/config/webhooks-toml.ts";

export type GatewayOptions = IngressOptions & {
  webhooks: WebhooksToml;
  serviceId: number;
  metadataPrefix: string;
};

export type WebhooksGateway = Gateway & {
  /** Ends the gateway's timers. Call it last, when nothing more can arrive. */
  close(): void;
};

/** The webhooks gateway, to be mounted in any process; it holds nothing that two replicas would have to agree on. */
export function createWebhooksGateway(options: GatewayOptions): WebhooksGateway {
  const ingress = openIngress("webhook", options);
  const { admission } = ingress;
  const accept = createAccept({ ...ingress, claims: createClaims(options.redis) });
  const receive = createReceive({ ...ingress, assertOpen: () => admission.assertOpen(), accept });
  return {
    ...ingress.handle,
    handler: createHandler({ endpoints: toEndpoints(options.webhooks, options), receive, admission }),
    readiness: () => admission.readiness(),
    close: ingress.close,
  };
}
