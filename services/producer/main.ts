import { DEFAULT_RUNNER, toJobs } from "../../shared/config/jobs-toml.ts";
import { loadConfig } from "../../shared/config/load-config.ts";
import { toResultLimits } from "../../shared/config/results-toml.ts";
import { serveOps } from "../../shared/http/ops.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { createMetrics, metered } from "../../shared/metrics/metrics.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { createMeters } from "./metrics.ts";
import { createProducer } from "./producer.ts";
import { createRunners } from "./runners.ts";

export type ProducerProcess = ServiceOptions & { configDir: string; opsAddress: string | undefined };

export function runProducer(options: ProducerProcess): Promise<number> {
  return runService("producer", options, async ({ log: plainLog, shutdown }) => {
    const { postern, warnings } = loadConfig({ dir: options.configDir, env: options.env });
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const { redis: redisConfig, producer: config } = postern;
    const metrics = createMetrics();
    const log = metered(plainLog, createMeters(metrics));

    const redis = connectForWork(redisConfig.url, log);
    shutdown.defer("redis", () => redis.disconnect());

    const jobs = toJobs(postern);
    const runnersByName = Object.fromEntries(
      Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner }).map(
        ([name, { url, secret, timeout_ms }]) => [name, { url, secret: secret?.[0], timeoutMs: timeout_ms }],
      ),
    );
    const longestMs = Math.max(
      ...[...Object.values(runnersByName), ...jobs.values()].map(({ timeoutMs = 0 }) => timeoutMs),
    );
    const results = toResultLimits(postern);
    const runners = createRunners({
      runners: runnersByName,
      jobs,
      connections: config.concurrency,
      resultBytesMax: results.resultBytesMax,
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
      bodyBudgetBytes: config.body_budget_bytes,
      attempts: config.attempts,
      backoff: { baseMs: config.backoff.base_ms, capMs: config.backoff.cap_ms },
      jobs,
      limits: jobs,
      results,
      lockMs: config.lock_ms,
    });
    shutdown.defer("producer", () => producer.close(longestMs + 1000));

    const readiness = () => ({
      ready: producer.isAlive(),
      checks: { redis: redis.status, beating: producer.isAlive() },
    });
    const address = options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9092";
    const opsAddress = await serveOps(readiness, metrics, address, shutdown);

    const urls = Object.fromEntries(Object.entries(runnersByName).map(([name, { url }]) => [name, url]));
    log.info("service.started", {
      ...{ opsAddress, runner: postern.runner.url },
      ...(jobs.size > 0 && { runners: urls, jobs: [...jobs.keys()] }),
      workerId: producer.workerId,
    });
    return { fatal: producer.ready() };
  });
}
