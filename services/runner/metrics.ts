import type { Meter } from "../../shared/platform/log/metered.ts";
import type { Metrics } from "../../shared/platform/metrics/metrics.ts";
import { redisClock } from "../../shared/redis/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import type { ComposedRunner } from "./runner.ts";

/** Maps the runner's log events to its metrics. */
export function createMeters(metrics: Metrics): Record<string, Meter> {
  const runs = metrics.duration("postern_runner_run_duration_seconds", "Time of a job's run, by outcome", [
    "name",
    "outcome",
  ]);
  const replayed = metrics.counter("postern_runner_replayed_total", "Repeated calls, answered from memory");
  const refused = metrics.counter("postern_runner_refused_total", "Requests that ran no job, by error code", [
    "code",
  ]);
  const deliveries = metrics.counter(
    "postern_runner_deliveries_total",
    "Attempts to deliver the result of a long call, by outcome",
    ["outcome"],
  );
  const ran = (outcome: string): Meter => {
    return ({ job, ms }) => runs.observeMs({ name: String(job), outcome }, Number(ms));
  };
  const [finished, failed] = [ran("finished"), ran("failed")];
  const refuse: Meter = ({ code }) => refused.inc({ code: String(code) });
  const delivered = (outcome: string): Meter => {
    return () => deliveries.inc({ outcome });
  };
  return {
    "job.finished": (fields) => (fields["replayed"] === true ? replayed.inc() : finished(fields)),
    // If an unexpected error occurs before it is known which job a request is for, it counts as a refused request.
    "job.failed": (fields) => (fields["job"] === undefined ? refuse(fields) : failed(fields)),
    "job.interrupted": ran("interrupted"),
    "job.refused": refuse,
    "result.delivered": delivered("delivered"),
    "result.delivery_failed": delivered("failed"),
    "result.delivery_refused": delivered("refused"),
  };
}

/** Registers gauges of the work in this process, and of the work that waits in the runners' shared Redis. */
export function registerGauges(
  metrics: Metrics,
  generations: { readonly current: Pick<ComposedRunner, "slots" | "inFlight" | "servers"> },
  { redis, keys }: { redis: Redis; keys: Pick<RunnerKeys, "due" | "deliveries"> },
): void {
  const slots = metrics.gauge("postern_runner_slots", "Limit on requests, and on long calls, in flight");
  const inUse = metrics.gauge("postern_runner_slots_in_use", "Requests and long calls in flight", ["kind"]);
  const due = metrics.gauge("postern_runner_due_calls", "Long calls that no runner has taken in time");
  const dueAge = metrics.gauge("postern_runner_due_age_seconds", "Time for which the oldest of them is due");
  const undelivered = metrics.gauge(
    "postern_runner_undelivered_results",
    "Results that no gateway has taken",
  );
  const { now } = redisClock(redis);

  async function readStored(): Promise<void> {
    const at = now();
    const [calls, [, since = at], results] = await Promise.all([
      redis.zcount(keys.due, "-inf", String(at)),
      redis.zrange(keys.due, "0", "0", "WITHSCORES"),
      redis.zcount(keys.deliveries, "-inf", "+inf"),
    ]);
    due.set(calls);
    dueAge.set(Math.max(0, at - Number(since)) / 1000);
    undelivered.set(results);
  }

  metrics.beforeScrape(async () => {
    const { slots: max, inFlight, servers } = generations.current;
    slots.set(max);
    for (const [kind, count] of Object.entries(inFlight())) inUse.set({ kind }, count);
    for (const gauge of [due, dueAge, undelivered]) gauge.set(Number.NaN);
    if (servers.every(({ isUsable }) => isUsable)) await readStored().catch(() => {});
  });
}
