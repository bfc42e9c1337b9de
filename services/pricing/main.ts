import { withoutFile } from "../../shared/config/config-dir.ts";
import { toHttpOptions } from "../../shared/config/postern-toml.ts";
import { listen } from "../../shared/http/listen.ts";
import { serveOps } from "../../shared/http/ops.ts";
import { serveWhenReady } from "../../shared/http/serve-when-ready.ts";
import { runService, type ServiceOptions, type Shutdown } from "../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { type Meter, metered } from "../../shared/log/metered.ts";
import { createMetrics, type Metrics } from "../../shared/metrics/metrics.ts";
import { loadPricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import { openReports } from "../../shared/processes/report.ts";
import { registerClock } from "../../shared/redis/clock.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { logGrpc } from "./grpc.ts";
import { type ComposedService, composePricingService } from "./pricing.ts";

export type PricingProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  /** Changes the service before it is served. Only code can ask for it: there is no flag. */
  extend?: (service: ComposedService, host: HostParts) => ComposedService;
};

/** The parts of the process that an extension may use. It must defer the end of everything that it starts. */
export type HostParts = { partition: Partition; clock: Clock; log: Logger; shutdown: Shutdown };

const CLOSE_GRACE_MS = 5000;

export function runPricing(options: PricingProcess): Promise<number> {
  return runService("pricing", options, async ({ log: plainLog, shutdown }) => {
    const { configDir: dir, env } = options;
    const { postern, pricing, jobs, warnings } = loadPricingConfig({ dir, env, reader: "pricing" });
    if (pricing === undefined) throw withoutFile(dir, "pricing.toml", "pricing engine");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));
    logGrpc(log);

    const redis = connectForRequests(postern.redis.url, log);
    shutdown.defer("redis", () => redis.disconnect());
    registerClock(metrics, redis);

    const reports = openReports({ kind: "pricing", postern, config: { pricing, jobs }, redis, log });
    shutdown.defer("reports", reports.stop);

    const plainService = composePricingService({
      jobs,
      key: pricing.key,
      domain: pricing.domain,
      powDifficulty: pricing.pow_difficulty,
      quoteTtlSecs: pricing.quote_ttl_secs,
      maxQuoteAgeSecs: pricing.max_quote_age_secs,
      redis,
      durability: postern.redis.durability,
      declared: postern.redis.declared,
      log,
      http: toHttpOptions(postern),
    });
    const partition = partitionOf(redis);
    const host: HostParts = { partition, clock: systemClock, log, shutdown };
    const service = options.extend?.(plainService, host) ?? plainService;
    shutdown.defer("pricing", () => service.close());

    const privateAddress = options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9094";
    const opsAddress = await serveOps(service.readiness, metrics, privateAddress, shutdown);

    log.info("service.starting", { opsAddress });

    const { http_address: httpAddress, bind_address: grpcAddress } = pricing;
    const keepAliveMs = postern.http.keep_alive_secs * 1000;
    async function open() {
      const http =
        httpAddress === false ? undefined : await listen(service.handler, httpAddress, { keepAliveMs });
      const grpc = await service.listenGrpc(options.bindAddress ?? grpcAddress).catch(async (error) => {
        await http?.close(0);
        throw error;
      });
      log.info("service.started", {
        address: grpc.address,
        httpAddress: http?.address,
        opsAddress,
        operator: service.operator,
        jobs: jobs.size,
      });
      return { close: (graceMs: number) => Promise.all([http?.close(graceMs), grpc.close(graceMs)]) };
    }

    const { firstCheck: ready, drain } = service;
    const drainMs = postern.drain_secs * 1000;
    return { fatal: serveWhenReady({ ready, open, drain, drainMs, graceMs: CLOSE_GRACE_MS, shutdown }) };
  });
}

/** What each event adds to the metrics. */
function createMeters(metrics: Metrics): Record<string, Meter> {
  const quotes = metrics.counter("postern_pricing_quotes_total", "Requests for a price, by outcome", [
    "code",
  ]);
  return {
    "quote.issued": () => quotes.inc({ code: "issued" }),
    "quote.refused": ({ code, times }) => quotes.inc({ code: String(code) }, Number(times)),
  };
}
