import { withoutFile } from "../../shared/config/config-dir.ts";
import { loadConfig } from "../../shared/config/load-config.ts";
import { toHttpOptions, toLimits } from "../../shared/config/postern-toml.ts";
import type { WebhooksToml } from "../../shared/config/webhooks-toml.ts";
import { registerPressure } from "../../shared/gateway/backpressure.ts";
import { serveGateway } from "../../shared/gateway/serve.ts";
import { storedBytesOf } from "../../shared/job-call/job-call.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { extraMs } from "../../shared/redis/large.ts";
import { createWebhooksGateway } from "./gateway.ts";
import { createMeters } from "./metrics.ts";

export type WebhooksProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  serviceId: number;
};

export function runWebhooks(options: WebhooksProcess): Promise<number> {
  const { configDir, env, serviceId } = options;
  return runService("webhooks", options, async ({ log: plainLog, shutdown }) => {
    const { postern, webhooks, warnings } = loadConfig({ dir: configDir, env, reader: "gateway" });
    if (webhooks === undefined) throw withoutFile(configDir, "webhooks.toml", "webhooks gateway");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    if (serviceId === 0)
      plainLog.warn("config.warning", { warning: "service id is 0; set --service-id or POSTERN_SERVICE_ID" });
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));

    const redis = connectForRequests(postern.redis.url, log);
    shutdown.defer("redis", () => redis.disconnect());

    const gateway = createWebhooksGateway({
      webhooks,
      serviceId,
      metadataPrefix: postern.metadata_prefix,
      redis,
      durability: postern.redis.durability,
      limits: toLimits(postern),
      enqueueTimeoutMs: postern.limits.enqueue_timeout_ms,
      http: toHttpOptions(postern),
      log,
    });
    registerPressure(metrics, "webhook", gateway.pressure);
    return serveGateway({
      gateway,
      metrics,
      shutdown,
      log,
      postern,
      bindAddress: options.bindAddress ?? webhooks.bind_address,
      opsAddress: options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9091",
      requestTimeoutMs: webhooks.request_timeout_secs * 1000,
      graceMs: postern.limits.enqueue_timeout_ms + extraMs(storedBytesOf(bodyBytesMax(webhooks))) + 5000,
      about: { endpoints: webhooks.endpoints.map(({ path, auth }) => `${path} (${auth})`) },
    });
  });
}

/** The largest body that any endpoint takes. */
function bodyBytesMax({ body_limit_bytes, endpoints }: WebhooksToml): number {
  return Math.max(...endpoints.map((endpoint) => endpoint.body_limit_bytes ?? body_limit_bytes));
}
