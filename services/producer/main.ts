import { DEFAULT_RUNNER } from "../../shared/config/jobs-toml.ts";
import { loadPostern } from "../../shared/config/load-config.ts";
import { serveOps } from "../../shared/http/ops.ts";
import { runService, type ServiceOptions } from "../../shared/lifecycle/run-service.ts";
import { metered } from "../../shared/log/metered.ts";
import { createMetrics } from "../../shared/metrics/metrics.ts";
import { openReports } from "../../shared/processes/report.ts";
import { registerClock } from "../../shared/redis/clock.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { createMeters } from "./metrics.ts";
import { openProducer } from "./producer.ts";

export type ProducerProcess = ServiceOptions & { configDir: string; opsAddress: string | undefined };

export function runProducer(options: ProducerProcess): Promise<number> {
  return runService("producer", options, async ({ log: plainLog, shutdown }) => {
    const { postern, warnings } = loadPostern({
      dir: options.configDir,
      env: options.env,
      reader: "producer",
    });
    for (const warning of warnings) plainLog.warn("config.warning", { warning });
    const metrics = createMetrics();
    const meteredLog = metered(plainLog, createMeters(metrics));

    const redis = connectForWork(postern.redis.url, meteredLog);
    shutdown.defer("redis", () => redis.disconnect());
    registerClock(metrics, redis);

    const reports = openReports({ kind: "producer", postern, redis, log: meteredLog });
    shutdown.defer("reports", reports.stop);
    const { log } = reports;

    const producer = openProducer({ postern, setsLimits: true, redis, log });
    if (producer.runners !== undefined) reports.watchRunners(producer.runners);
    shutdown.defer("producer", () => producer.close(producer.graceMs));

    const address = options.opsAddress ?? postern.ops_address ?? "127.0.0.1:9092";
    const opsAddress = await serveOps(producer.readiness, metrics, address, shutdown);

    const urls = Object.fromEntries(
      Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner }).map(([name, { url }]) => [
        name,
        url,
      ]),
    );
    const jobs = Object.keys(postern.jobs);
    log.info("service.started", {
      ...{ opsAddress, runner: postern.runner.url },
      ...(jobs.length > 0 && { runners: urls, jobs }),
      workerId: producer.workerId,
    });
    return { fatal: producer.ready() };
  });
}
