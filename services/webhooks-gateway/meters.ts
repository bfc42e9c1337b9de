import type { Meter, Metrics } from "../../shared/metrics/metrics.ts";
import type { Pressure } from "../../shared/queue/backpressure.ts";

/** What the gateway's events add to its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const answered = metrics.counter("postern_webhooks_total", "Webhooks answered, by outcome", [
    "path",
    "code",
  ]);
  const replayed = metrics.counter("postern_webhooks_replayed_total", "Deliveries that were known before", [
    "path",
  ]);
  const rejected = metrics.counter("postern_auth_failures_total", "Credentials refused, by reason", [
    "path",
    "reason",
  ]);
  const duration = metrics.duration("postern_webhook_duration_seconds", "From first byte to answer", [
    "path",
  ]);
  return {
    "webhook.accepted": ({ path, replayed: known, ms }) => {
      const labels = { path: String(path) };
      answered.inc({ ...labels, code: "accepted" });
      if (known === true) replayed.inc(labels);
      duration.observeMs(labels, Number(ms));
    },
    "webhook.refused": ({ path, code, reason, ms }) => {
      const labels = { path: String(path) };
      answered.inc({ ...labels, code: String(code) });
      if (code === "webhook.credential_rejected") rejected.inc({ ...labels, reason: String(reason) });
      duration.observeMs(labels, Number(ms));
    },
  };
}

/** Gauges of the queue behind the gateway, as last seen. */
export function registerPressure(metrics: Metrics, pressure: () => Pressure | undefined): void {
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
    for (const state of ["waiting", "delayed", "active", "parked"] as const) {
      jobs.set({ origin: "webhook", state }, depth[state]);
    }
    oldest.set({ origin: "webhook" }, oldestAgeMs / 1000);
    memory.set(memoryRatio);
    workers.set(workersAlive);
  });
}
