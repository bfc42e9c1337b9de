import type { Origin } from "../job-call/job-call.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Pressure } from "./backpressure.ts";

/** Gauges of the queue behind the gateway, as last seen. */
export function registerPressure(
  metrics: Metrics,
  origin: Origin,
  pressure: () => Pressure | undefined,
): void {
  const jobs = metrics.gauge("postern_queue_calls", "Calls in the queue, by state", ["origin", "state"]);
  const oldest = metrics.gauge(
    "postern_queue_oldest_age_seconds",
    "Age of the oldest waiting or delayed call",
    ["origin"],
  );
  const memory = metrics.gauge(
    "postern_redis_memory_ratio",
    "Redis' used memory by its maxmemory; 0 without one",
  );
  const workers = metrics.gauge("postern_workers_alive", "Producers heard of lately");
  metrics.beforeScrape(() => {
    const seen = pressure();
    if (seen === undefined) return;
    const { depth, oldestAgeMs, memoryRatio, workersAlive } = seen;
    for (const state of ["waiting", "delayed", "active", "failed"] as const) {
      jobs.set({ origin, state }, depth[state]);
    }
    oldest.set({ origin }, oldestAgeMs / 1000);
    memory.set(memoryRatio);
    workers.set(workersAlive);
  });
}
