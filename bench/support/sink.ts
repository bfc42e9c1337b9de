import type { Part } from "../../shared/dev/process.ts";
import { delay } from "../../shared/platform/time/clock.ts";

export type Counted = {
  /** Number of different call ids. */
  calls: number;
  /** Number of duplicates: arrivals whose id had already arrived. */
  duplicates: number;
  /** Calls per second, from the first to the last arrival. */
  perSecond: number;
};

/** Times from the moment when a call is sent to its arrival at the sink. */
export type Latencies = { p50Ms: number; p99Ms: number; maxMs: number };

export type Sink = {
  readonly url: string;
  /** Counts the calls that have arrived since the last reset. The rate leaves out the first `skip` calls. */
  count(skip?: number): Promise<Counted>;
  /** Returns the latencies since the last reset. Calls without a header for the send time are left out. */
  latencies(): Promise<Latencies>;
  reset(): Promise<void>;
  /** Resolves once `calls` calls have arrived, or once no further call has arrived for `PATIENCE_MS`. */
  arrived(calls: number): Promise<Counted>;
};

const POLL_MS = 250;
/**
 * `arrived` stops waiting after this time without an arrival. It is long enough for a worker to notice that another worker
 * died, and to take back its calls.
 */
const PATIENCE_MS = 45_000;

type Start = (name: string, script: string, args: readonly string[]) => Promise<Part>;

export async function startSink(start: Start): Promise<Sink> {
  const { address } = await start("sink", "bench/processes/sink.ts", []);
  const url = `http://${address}`;
  const count: Sink["count"] = async (skip = 0) =>
    (await fetch(`${url}/count?skip=${skip}`)).json() as Promise<Counted>;
  return {
    url,
    count,
    latencies: async () => (await fetch(`${url}/latencies`)).json() as Promise<Latencies>,
    reset: async () => {
      await fetch(`${url}/reset`, { method: "POST" });
    },
    async arrived(calls) {
      let seen = await count();
      let progressAt = performance.now();
      while (seen.calls < calls && performance.now() - progressAt < PATIENCE_MS) {
        await delay(POLL_MS);
        const now = await count();
        if (now.calls > seen.calls) progressAt = performance.now();
        seen = now;
      }
      return seen;
    },
  };
}
