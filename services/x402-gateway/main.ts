import { withoutFile } from "../../shared/config/config-dir.ts";
import { toLimits } from "../../shared/config/postern-toml.ts";
import { serveGateway } from "../../shared/gateway/serve.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { createX402Gateway } from "./gateway.ts";
import { registerGauges } from "./gauges.ts";
import { createMeters } from "./metrics.ts";

export type X402Process = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
};

export function runX402(options: X402Process): Promise<number> {
  return runService("x402", options, async ({ log: plainLog, shutdown }) => {
    const { postern, x402, prices, warnings } = loadX402Config({ dir: options.configDir, env: options.env });
    if (x402 === undefined) throw withoutFile(options.configDir, "x402.toml", "x402 gateway");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));

    const redis = connectForRequests(postern.redis.url, log);
    shutdown.defer("redis", () => redis.disconnect());

    const gateway = createX402Gateway({
      x402,
      prices,
      metadataPrefix: postern.metadata_prefix,
      redis,
      durability: postern.redis.durability,
      limits: toLimits(postern),
      enqueueTimeoutMs: postern.limits.enqueue_timeout_ms,
      log,
    });
    shutdown.defer("gateway", () => gateway.close());
    registerGauges(metrics, gateway, redis);

    const endMs = (x402.facilitator_timeout_secs + x402.settle_timeout_secs) * 1000;
    const addresses = await serveGateway({
      gateway,
      metrics,
      shutdown,
      bindAddress: options.bindAddress ?? x402.bind_address,
      opsAddress: options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9093",
      requestTimeoutMs: x402.request_timeout_secs * 1000,
      graceMs: endMs + 2 * postern.limits.enqueue_timeout_ms,
      drainMs: postern.drain_secs * 1000,
    });
    log.info("service.started", {
      ...addresses,
      publicUrl: x402.public_url,
      jobs: prices.size,
      tokens: x402.accepted_tokens.map(({ symbol, network }) => `${symbol} (${network})`),
    });
    return { fatal: gateway.firstCheck.then(() => new Promise<never>(() => {})) };
  });
}
