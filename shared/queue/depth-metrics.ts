import type { Origin } from "../call/origin.ts";
import type { Metrics } from "../platform/metrics/metrics.ts";
import { COUNTS, type Depth } from "./registry.ts";

/** Creates the gauges of one origin's calls. After `reset`, a partition has no values until `set` is called. */
export function createDepthGauges(metrics: Metrics, origin: Origin) {
  const calls = metrics.gauge("postern_queue_calls", "Calls in the queues, by state", [
    "origin",
    "state",
    "partition",
  ]);
  const oldest = metrics.gauge(
    "postern_queue_oldest_age_seconds",
    "Age of the oldest waiting or delayed call",
    ["origin", "partition"],
  );
  return {
    reset(): void {
      calls.reset();
      oldest.reset();
    },
    set(partition: number, depth: Depth, oldestAgeMs: number): void {
      for (const state of COUNTS) calls.set({ origin, state, partition }, depth[state]);
      oldest.set({ origin, partition }, oldestAgeMs / 1000);
    },
  };
}

/** Age of the oldest waiting or delayed call; 0 without such a call. */
export function oldestAgeOf({ oldestSince }: Depth, now: number): number {
  return oldestSince === undefined ? 0 : Math.max(0, now - oldestSince);
}
