import { withoutFile } from "../../shared/config/config-dir.ts";
import { loadConfig } from "../../shared/config/load-config.ts";
import { registerPressure } from "../../shared/gateway/backpressure.ts";
import { toIngressOptions } from "../../shared/gateway/ingress.ts";
import { serveGateway } from "../../shared/gateway/serve.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { metered } from "../../shared/log/metered.ts";
import { createMetrics } from "../../shared/metrics/metrics.ts";
import { openReports } from "../../shared/processes/report.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { composeWebhooksGateway, graceMsOf } from "./gateway.ts";
import { createMeters } from "./metrics.ts";

export type WebhooksProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  /** Without it 0, with a warning. */
  serviceId: number | undefined;
};

export function runWebhooks(options: WebhooksProcess): Promise<number> {
  const { configDir, env, serviceId = 0 } = options;
  return runService("webhooks", options, async ({ log: plainLog, shutdown }) => {
    const { postern, webhooks, warnings } = loadConfig({ dir: configDir, env, reader: "gateway" });
    if (webhooks === undefined) throw withoutFile(configDir, "webhooks.toml", "webhooks gateway");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    if (options.serviceId === undefined)
      plainLog.warn("config.warning", { warning: "service id is 0; set --service-id or POSTERN_SERVICE_ID" });
    const metrics = createMetrics();
    const meteredLog = metered(plainLog, createMeters(metrics));

    const redis = connectForRequests(postern.redis.url, meteredLog);
    shutdown.defer("redis", () => redis.disconnect());

    const config = { webhooks };
    const reports = openReports({ kind: "webhooks", postern, config, serviceId, redis, log: meteredLog });
    shutdown.defer("reports", reports.stop);
    const { log } = reports;

    const gateway = composeWebhooksGateway({
      webhooks,
      serviceId,
      ...toIngressOptions(postern),
      redis,
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
      graceMs: graceMsOf(webhooks, postern),
      about: { endpoints: webhooks.endpoints.map(({ path, auth }) => `${path} (${auth})`) },
    });
  });
}
