import type { Part } from "../../shared/dev/process.ts";
import { delay } from "../../shared/platform/time/clock.ts";

export type Counted = {
  /** Different call ids. */
  calls: number;
  /** Arrivals of an id that had arrived before. */
  duplicates: number;
  /** From the first to the last of them. */
  perSecond: number;
};

/** From when calls say they were sent to their arrival. */
export type Latencies = { p50Ms: number; p99Ms: number; maxMs: number };

export type Sink = {
  readonly url: string;
  /** Since the last reset. The rate leaves out the first `skip` calls. */
  count(skip?: number): Promise<Counted>;
  /** Of the calls since the last reset that say it. */
  latencies(): Promise<Latencies>;
  reset(): Promise<void>;
  /** Resolves once so many calls have arrived, or none has for a while. */
  arrived(calls: number): Promise<Counted>;
};

const POLL_MS = 250;
/** Longer than a worker takes to notice that another one died. */
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
