import type { EndpointToml, WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { platformKeys, WEBHOOK_NAME, WEBHOOK_ORIGIN, WEBHOOK_PATH } from "../../shared/job-call/metadata.ts";

/** A configured endpoint with its defaults resolved. */
export type Endpoint = {
  config: EndpointToml;
  bodyBytesMax: number;
  /** How long a delivery id is remembered after its call has ended. */
  windowMs: number;
  metadataOf(callId: string): Record<string, string>;
};

type Platform = { serviceId: number; metadataPrefix: string };

/** The endpoints by their exact path. */
export function toEndpoints(webhooks: WebhooksToml, platform: Platform): ReadonlyMap<string, Endpoint> {
  return new Map(webhooks.endpoints.map((config) => [config.path, toEndpoint(config, webhooks, platform)]));
}

function toEndpoint(
  config: EndpointToml,
  webhooks: WebhooksToml,
  { serviceId, metadataPrefix }: Platform,
): Endpoint {
  const keys = platformKeys(metadataPrefix);
  // With the call id's place in it: an object that grows a computed key is slow to make and slower to write as JSON.
  const template = {
    [keys.serviceId]: String(serviceId),
    [WEBHOOK_PATH]: config.path,
    ...(config.name !== undefined && { [WEBHOOK_NAME]: config.name }),
    [WEBHOOK_ORIGIN]: "webhook",
    [keys.callId]: "",
  };
  return {
    config,
    bodyBytesMax: config.body_limit_bytes ?? webhooks.body_limit_bytes,
    windowMs: (config.idempotency_window_secs ?? webhooks.idempotency_window_secs) * 1000,
    metadataOf: (callId) => ({ ...template, [keys.callId]: callId }),
  };
}
