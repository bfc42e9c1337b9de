import { DEFAULT_RUNNER } from "../../shared/config/jobs-toml.ts";
import { serveOps } from "../../shared/http/ops.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored } from "../../shared/part/serve.ts";
import { registerUsable } from "../../shared/redis/durable.ts";
import { createMeters } from "./metrics.ts";
import { composeProducer, PRODUCER } from "./producer.ts";

export function runProducer(options: ProcessOptions): Promise<number> {
  const part = { ...PRODUCER, opsAddress: "127.0.0.1:9092", createMeters };
  return runMonitored(part, options, async (host) => {
    const { postern, metrics, log, shutdown } = host;
    const producer = composeProducer({ ...host, setsLimits: true });
    shutdown.defer("producer", () => producer.close());
    registerUsable(metrics, producer.servers);
    const opsAddress = await serveOps(producer.readiness, metrics, host.opsAddress, shutdown);

    const runners = Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner });
    const jobs = Object.keys(postern.jobs);
    log.info("service.started", {
      opsAddress,
      runner: postern.runner.url,
      ...(jobs.length > 0 && {
        runners: Object.fromEntries(runners.map(([name, { url }]) => [name, url])),
        jobs,
      }),
      workerId: producer.workerId,
    });
    return { fatal: producer.firstCheck };
  });
}
