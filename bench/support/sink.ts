import type { Part } from "../../shared/dev/process.ts";
import { delay } from "../../shared/platform/time/clock.ts";

export type Counted = {
  /** Number of different call ids. */
  calls: number;
  /** Number of duplicates: arrivals whose id had already arrived. */
  duplicates: number;
  /** Rate from the first to the last arrival. */
  perSecond: number;
};

/** Times from the sending of calls to their arrival. */
export type Latencies = { p50Ms: number; p99Ms: number; maxMs: number };

export type Sink = {
  readonly url: string;
  /** Counts the calls since the last reset. The rate leaves out the first `skip` calls. */
  count(skip?: number): Promise<Counted>;
  /** Latencies since the last reset. Calls without a send time are not counted. */
  latencies(): Promise<Latencies>;
  reset(): Promise<void>;
  /** Resolves once `calls` calls have arrived, or none has for a while. */
  arrived(calls: number): Promise<Counted>;
};

const POLL_MS = 250;
/** `arrived` gives up after this time without an arrival. The time suffices for a worker to notice that another one died. */
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
