import { loadConfig } from "../../shared/config/load-config.ts";
import { toLimits } from "../../shared/config/postern-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { listen } from "../../shared/http/listen.ts";
import { createOpsApp } from "../../shared/http/ops.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { registerPressure } from "../../shared/queue/pressure-gauges.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { delay } from "../../shared/time/clock.ts";
import { createWebhooksGateway } from "./gateway.ts";
import { createMeters } from "./meters.ts";

export type WebhooksProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  serviceId: number;
};

export function runWebhooks(options: WebhooksProcess): Promise<number> {
  const { serviceId } = options;
  return runService("webhooks", options, async ({ log: plainLog, shutdown, reached }) => {
    const { postern, webhooks, warnings } = loadConfig({ dir: options.configDir, env: options.env });
    if (webhooks === undefined) throw noFile(options.configDir);
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
      log,
      reached,
    });
    shutdown.defer("gateway", () => gateway.close());
    registerPressure(metrics, "webhook", gateway.pressure);

    const ops = await listen(
      createOpsApp({ readiness: gateway.readiness, metrics }),
      options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9091",
    );
    shutdown.defer("ops server", () => ops.close(0));

    const server = await listen(gateway.handler, options.bindAddress ?? webhooks.bind_address, {
      requestTimeoutMs: webhooks.request_timeout_secs * 1000,
    });
    shutdown.defer("http server", () => server.close(postern.limits.enqueue_timeout_ms + 5000));
    shutdown.defer("drain", async () => {
      gateway.drain();
      await delay(postern.drain_secs * 1000);
      gateway.stop();
    });

    log.info("service.started", {
      address: server.address,
      opsAddress: ops.address,
      endpoints: webhooks.endpoints.map(({ path, auth }) => `${path} (${auth})`),
    });
    return { fatal: gateway.firstCheck.then(() => new Promise<never>(() => {})) };
  });
}

function noFile(dir: string): AppError {
  return new AppError("start.config_invalid", {
    reason: `${dir}/webhooks.toml: there is no such file; without it the webhooks gateway is off`,
  });
}
