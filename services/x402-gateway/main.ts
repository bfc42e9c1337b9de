import { withoutFile } from "../../shared/config/config-dir.ts";
import { toHttpOptions, toLimits } from "../../shared/config/postern-toml.ts";
import { serveGateway } from "../../shared/gateway/serve.ts";
import { storedBytesOf } from "../../shared/job-call/job-call.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { jobsOnSale } from "../../shared/pricing/prices.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { extraMs } from "../../shared/redis/large.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { createX402Gateway } from "./gateway.ts";
import { createMeters, registerGauges } from "./metrics.ts";

export type X402Process = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
};

export function runX402(options: X402Process): Promise<number> {
  const { configDir, env } = options;
  return runService("x402", options, async ({ log: plainLog, shutdown }) => {
    const { postern, x402, prices, warnings } = loadX402Config({ dir: configDir, env, reader: "gateway" });
    if (x402 === undefined) throw withoutFile(configDir, "x402.toml", "x402 gateway");
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
      http: toHttpOptions(postern),
      log,
    });
    registerGauges(metrics, gateway, partitionOf(redis));

    const writingMs = postern.limits.enqueue_timeout_ms + extraMs(storedBytesOf(x402.body_limit_bytes));
    const settlingMs = (x402.facilitator_timeout_secs + x402.settle_timeout_secs) * 1000;
    return serveGateway({
      gateway,
      metrics,
      shutdown,
      log,
      postern,
      bindAddress: options.bindAddress ?? x402.bind_address,
      opsAddress: options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9093",
      requestTimeoutMs: x402.request_timeout_secs * 1000,
      graceMs: settlingMs + 2 * writingMs,
      about: {
        publicUrl: x402.public_url,
        jobs: prices.size,
        jobsOnSale: jobsOnSale(x402, prices).length,
        defaultInvocationMode: x402.default_invocation_mode,
        tokens: x402.accepted_tokens.map(({ symbol, network }) => `${symbol} (${network})`),
      },
    });
  });
}
