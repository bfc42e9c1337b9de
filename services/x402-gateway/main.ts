import { withoutFile } from "../../shared/config/config-dir.ts";
import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { toIngressOptions } from "../../shared/gateway/ingress.ts";
import { serveGateway } from "../../shared/gateway/serve.ts";
import { runService, type ServiceOptions, type Shutdown } from "../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { metered } from "../../shared/log/metered.ts";
import { createMetrics } from "../../shared/metrics/metrics.ts";
import { loadX402Config } from "../../shared/pricing/load-x402-config.ts";
import { jobsOnSale } from "../../shared/pricing/prices.ts";
import { openReports } from "../../shared/processes/report.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";
import { startDrain } from "./drain.ts";
import { type ComposedGateway, composeX402Gateway, graceMsOf } from "./gateway.ts";
import { createMeters, registerGauges } from "./metrics.ts";

export type X402Process = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  /** It sells nothing, and tells when another deployment may take over its `pay_to`. */
  drain?: boolean;
};

export function runX402(options: X402Process): Promise<number> {
  const { configDir, env } = options;
  return runService("x402", options, async ({ log: plainLog, shutdown }) => {
    const { postern, x402, prices, warnings } = loadX402Config({ dir: configDir, env, reader: "gateway" });
    if (x402 === undefined) throw withoutFile(configDir, "x402.toml", "x402 gateway");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const meteredLog = metered(plainLog, createMeters(metrics));

    const redis = connectForRequests(postern.redis.url, meteredLog);
    shutdown.defer("redis", () => redis.disconnect());

    const config = { x402, prices };
    const reports = openReports({ kind: "x402", postern, config, redis, log: meteredLog });
    shutdown.defer("reports", reports.stop);
    const { log } = reports;

    const isDrained = options.drain === true;
    const plain = composeX402Gateway({ x402, prices, ...toIngressOptions(postern), redis, log, isDrained });
    const gateway = isDrained
      ? drained(plain, { partition: partitionOf(redis), x402, log, shutdown })
      : plain;
    registerGauges(metrics, gateway, partitionOf(redis));

    return serveGateway({
      gateway,
      metrics,
      shutdown,
      log,
      postern,
      bindAddress: options.bindAddress ?? x402.bind_address,
      opsAddress: options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9093",
      requestTimeoutMs: x402.request_timeout_secs * 1000,
      graceMs: graceMsOf(x402, postern),
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

type DrainParts = { partition: Partition; x402: X402Toml; log: Logger; shutdown: Shutdown };

/** The same gateway, which drains its Redis and tells on `/readyz` how far that is. */
function drained(gateway: ComposedGateway, { shutdown, ...parts }: DrainParts): ComposedGateway {
  const drain = startDrain(parts);
  shutdown.defer("drain of payments", drain.stop);
  return {
    ...gateway,
    readiness() {
      const { ready, checks } = gateway.readiness();
      return { ready, checks: { ...checks, drain: drain.state() ?? { drained: false } } };
    },
  };
}
