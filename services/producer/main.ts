import { DEFAULT_RUNNER } from "../../shared/config/jobs-toml.ts";
import type { CallsHost } from "../../shared/part/host.ts";
import type { ProcessOptions } from "../../shared/part/process.ts";
import { runMonitored, servePrivately } from "../../shared/part/serve.ts";
import { createMeters, registerGauges } from "./metrics.ts";
import { composeProducer, PRODUCER } from "./producer.ts";

export function runProducer(options: ProcessOptions): Promise<number> {
  const part = { ...PRODUCER, opsAddress: "127.0.0.1:9092", createMeters };
  const compose = (host: CallsHost) => composeProducer({ ...host, setsLimits: true });
  return runMonitored(part, options, compose, async (generations, host) => {
    const { postern, log, metrics } = host;
    registerGauges(metrics, generations, host.partitions);
    const opsAddress = await servePrivately(generations, host);
    const runners = Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner });
    const jobs = Object.keys(postern.jobs);
    log.info("service.started", {
      opsAddress,
      runner: postern.runner.url,
      ...(jobs.length > 0 && {
        runners: Object.fromEntries(runners.map(([name, { url }]) => [name, url])),
        jobs,
      }),
      workerId: generations.current.workerId,
    });
    return { fatal: generations.firstCheck };
  });
}
