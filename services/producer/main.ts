import { loadConfig } from "../../shared/config/load-config.ts";
import { serveOps } from "../../shared/http/ops.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { createMeters } from "./metrics.ts";
import { createProducer } from "./producer.ts";
import { createRunners, DEFAULT_RUNNER } from "./runners.ts";

export type ProducerProcess = ServiceOptions & { configDir: string; opsAddress: string | undefined };

export function runProducer(options: ProducerProcess): Promise<number> {
  return runService("producer", options, async ({ log: plainLog, shutdown }) => {
    const { postern, warnings } = loadConfig({ dir: options.configDir, env: options.env });
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const { redis: redisConfig, runner, producer: config } = postern;
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));

    const redis = connectForWork(redisConfig.url, log);
    shutdown.defer("redis", () => redis.disconnect());

    const runners = createRunners({
      runners: {
        [DEFAULT_RUNNER]: { url: runner.url, secret: runner.secret?.[0], timeoutMs: runner.timeout_ms },
      },
      jobs: new Map(),
      connections: config.concurrency,
      clock: systemClock,
      log,
    });
    shutdown.defer("runner connections", runners.close);

    const producer = createProducer({
      inject: runners.inject,
      isAway: runners.isAway,
      onRunnerChange: runners.onChange,
      redis,
      log,
      concurrency: config.concurrency,
      attempts: config.attempts,
      backoff: { baseMs: config.backoff.base_ms, capMs: config.backoff.cap_ms },
      lockMs: config.lock_ms,
    });
    shutdown.defer("producer", () => producer.close(runner.timeout_ms + 1000));

    const readiness = () => ({
      ready: producer.isAlive(),
      checks: { redis: redis.status, beating: producer.isAlive() },
    });
    const address = options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9092";
    const opsAddress = await serveOps(readiness, metrics, address, shutdown);

    log.info("service.started", { opsAddress, runner: runner.url, workerId: producer.workerId });
    return { fatal: producer.ready() };
  });
}
