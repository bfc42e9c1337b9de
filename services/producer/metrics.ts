import { jobKey } from "../../shared/call/job-ids.ts";
import type { Fields } from "../../shared/platform/log/logger.ts";
import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import { createReadDepth } from "../../shared/queue/depth.ts";
import { createDepthGauges, oldestAgeOf } from "../../shared/queue/depth-metrics.ts";
import { redisClock } from "../../shared/redis/clock.ts";
import type { Partitions } from "../../shared/redis/partition.ts";
import type { ComposedProducer } from "./producer.ts";

/** Maps the producer's log events to its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const outcomes = metrics.counter("postern_inject_total", "Attempts to inject a call, by outcome", [
    "origin",
    "job",
    "outcome",
  ]);
  const failures = metrics.counter("postern_inject_failures_total", "Failed attempts, by error code", [
    "origin",
    "job",
    "code",
  ]);
  const inject = metrics.duration(
    "postern_inject_duration_seconds",
    "Time that the runner took to answer an injected call",
    ["origin", "job"],
  );
  const endToEnd = metrics.duration("postern_call_end_to_end_seconds", "Time from accepted to injected", [
    "origin",
    "job",
  ]);
  const takenBack = metrics.counter(
    "postern_calls_taken_back_total",
    "Calls of a producer that died or stalled, queued again",
    ["origin"],
  );
  const throttled = metrics.counter(
    "postern_jobs_throttled_total",
    "Pauses of a job that its runner asked for",
    ["job"],
  );
  const missed = metrics.counter(
    "postern_runner_missed_total",
    "Failed connections to a runner, fewer than three in a row",
    ["runner"],
  );
  const failed = (outcome: string): Meter => {
    return (fields) => {
      const labels = labelsOf(fields);
      outcomes.inc({ ...labels, outcome });
      failures.inc({ ...labels, code: String(fields["code"]) });
    };
  };
  return {
    "call.injected": (fields) => {
      const labels = labelsOf(fields);
      outcomes.inc({ ...labels, outcome: "injected" });
      inject.observeMs(labels, Number(fields["injectMs"]));
      endToEnd.observeMs(labels, Number(fields["endToEndMs"]));
    },
    "call.delayed": failed("delayed"),
    "call.failed": failed("failed"),
    "call.lease_expired": ({ origin }) => takenBack.inc({ origin: String(origin) }),
    "job.throttled": ({ job }) => throttled.inc({ job: String(job) }),
    "runner.connect_failed": ({ runner, times }) => missed.inc({ runner: String(runner) }, Number(times)),
  };
}

/**
 * Registers gauges of slots, of runners and receivers that are away, and of the queues of callbacks. Each gateway reports the
 * queues of its own origin, but callbacks have no gateway. The gauges read the current producer and do not count events. A
 * reload may replace the producer during an outage, and then no event reports the end of the outage.
 */
export function registerGauges(
  metrics: Metrics,
  generations: {
    readonly current: Pick<ComposedProducer, "slots" | "inFlight" | "servers" | "runners" | "receiversAway">;
  },
  partitions: Partitions,
): void {
  const slots = metrics.gauge("postern_producer_slots", "Limit on calls in flight");
  const inFlight = metrics.gauge("postern_producer_slots_in_use", "Calls in flight");
  const away = metrics.gauge("postern_runner_away", "1 while no connection to the runner can be made", [
    "runner",
  ]);
  const receiversAway = metrics.gauge("postern_receivers_away", "Receivers of callbacks that do not answer");
  const callbacks = createDepthGauges(metrics, "callback");
  const reads = partitions.map((partition) => createReadDepth(partition, "callback")).all;
  const { now } = redisClock(partitions.control.redis);
  metrics.beforeScrape(async () => {
    const { servers, ...producer } = generations.current;
    slots.set(producer.slots);
    inFlight.set(producer.inFlight());
    away.reset();
    for (const { name, state } of producer.runners()) away.set({ runner: name }, state === "away" ? 1 : 0);
    receiversAway.set(producer.receiversAway());
    const found = await Promise.all(
      reads.map(async (read, i) => (servers[i]?.isUsable ? read().catch(() => undefined) : undefined)),
    );
    callbacks.reset();
    for (const [partition, depth] of found.entries())
      if (depth !== undefined) callbacks.set(partition, depth, oldestAgeOf(depth, now()));
  });
}

function labelsOf({ origin, serviceId, jobId }: Fields): { origin: string; job: string } {
  const job = jobKey({ serviceId: Number(serviceId), jobIndex: Number(jobId) });
  return { origin: String(origin), job };
}
