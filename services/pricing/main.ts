import { withoutFile } from "../../shared/config/config-dir.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { listen } from "../../shared/http/listen.ts";
import { createOpsApp } from "../../shared/http/ops.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import type { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { loadPricingConfig, type PricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import { connectForRequests, type Redis } from "../../shared/redis/connect.ts";
import { type Clock, delay, systemClock } from "../../shared/time/clock.ts";
import { logGrpc } from "./grpc.ts";
import { createMeters } from "./metrics.ts";
import { createPricingService, type PricingService } from "./pricing.ts";

export type PricingProcess = ServiceOptions & {
  configDir: string;
  bindAddress: string | undefined;
  opsAddress: string | undefined;
  /** What a host makes of the service before it is served, in code: no flag does. */
  extend?: (service: PricingService, parts: HostParts) => PricingService;
};

/** What of the process an extension may use; what it starts it also defers the end of. */
export type HostParts = { redis: Redis; clock: Clock; log: Logger; shutdown: Shutdown };

const CLOSE_GRACE_MS = 5000;

export function runPricing(options: PricingProcess): Promise<number> {
  return runService("pricing", options, async ({ log: plainLog, shutdown }) => {
    const config = loadPricingConfig({ dir: options.configDir, env: options.env });
    const { postern, pricing, jobs, warnings } = config;
    if (pricing === undefined) throw withoutFile(options.configDir, "pricing.toml", "pricing engine");
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));
    logGrpc(log);

    const redis = connectForRequests(postern.redis.url, log);
    shutdown.defer("redis", () => redis.disconnect());

    const { extend = (service: PricingService) => service } = options;
    const service = extend(createPricingService({ ...toOptions(config, pricing), redis, log }), {
      redis,
      clock: systemClock,
      log,
      shutdown,
    });
    shutdown.defer("pricing", () => service.close());

    const ops = await listen(
      createOpsApp({ readiness: service.readiness, metrics }),
      options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9094",
    );
    shutdown.defer("ops server", () => ops.close(0));

    const http =
      pricing.http_address === false ? undefined : await listen(service.handler, pricing.http_address);
    shutdown.defer("http server", () => http?.close(CLOSE_GRACE_MS));

    const grpc = await service.listenGrpc(options.bindAddress ?? pricing.bind_address);
    shutdown.defer("grpc server", () => grpc.close(CLOSE_GRACE_MS));
    shutdown.defer("drain", async () => {
      service.drain();
      await delay(postern.drain_secs * 1000);
    });

    log.info("service.started", {
      address: grpc.address,
      httpAddress: http?.address,
      opsAddress: ops.address,
      operator: service.operator,
      jobs: jobs.size,
    });
    return { fatal: service.firstCheck.then(() => new Promise<never>(() => {})) };
  });
}

function toOptions({ postern, jobs }: PricingConfig, pricing: PricingToml) {
  return {
    jobs: jobs.values(),
    key: pricing.key,
    domain: pricing.domain,
    powDifficulty: pricing.pow_difficulty,
    quoteTtlSecs: pricing.quote_ttl_secs,
    maxQuoteAgeSecs: pricing.max_quote_age_secs,
    durability: postern.redis.durability,
  };
}
