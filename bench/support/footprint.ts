import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { rssBytesOf } from "./proc.ts";
import type { Probe } from "./redis-probe.ts";
import { WINDOW_SECS } from "./soak-world.ts";
import { median, quantile } from "./statistics.ts";

const EVERY_MS = 1000;
/** Interval of forced garbage collections. They are rare, because they slow the process. */
const COLLECT_EVERY_MS = 10_000;
const PARTS = 5;
const GROWTH_MAX = 1.15;
/** Time that Redis remembers a call of the soak. */
const WINDOW_MS = WINDOW_SECS * 1000;

/** A value in bytes that is read periodically. */
export type Gauge = {
  name: string;
  read(): number | Promise<number>;
  /**
   * Value that must not grow: the bytes, or the bytes divided by the calls of the last minute. Undefined if the gauge is not
   * judged.
   */
  flat: "bytes" | "bytes for each call" | undefined;
};

export type Footprint = Pick<Gauge, "name" | "flat"> & {
  /** Value before the first call. */
  atStart: number;
  /** First quartile for each fifth of the calls, so that short peaks do not count. */
  fifths: number[];
  most: number;
  /** The higher of the fourth and the last fifth, divided by the second fifth. */
  growth: number;
};

export type Footprints = { perSecond: number[]; gauges: Footprint[] };

export async function gaugesOfPart(name: string, { process }: Part): Promise<Gauge[]> {
  const { url } = await process.waitForEvent("bench.heap");
  let kept = { at: Number.NEGATIVE_INFINITY, bytes: 0 };
  const readKept = async (): Promise<number> => {
    const at = performance.now();
    if (at - kept.at >= COLLECT_EVERY_MS)
      kept = { at, bytes: Number(await (await fetch(String(url))).text()) };
    return kept.bytes;
  };
  return [
    { name: `${name}, RSS`, read: () => rssBytesOf(process.pid), flat: "bytes" },
    { name: `${name}, kept by Node`, read: readKept, flat: "bytes" },
  ];
}

/**
 * Measures a Redis. Only `used_memory` is judged: the RSS depends on it, and the append-only file grows until Redis rewrites
 * it.
 */
export function gaugesOfRedis(name: string, { pid }: PrivateRedis, probe: Probe): Gauge[] {
  return [
    { name: `${name}, used_memory`, read: probe.usedBytes, flat: "bytes for each call" },
    { name: `${name}, RSS`, read: () => rssBytesOf(pid), flat: undefined },
    { name: `${name}, append-only file`, read: probe.aofBytes, flat: undefined },
  ];
}

type Sample = {
  at: number;
  done: number;
  /** Number of calls that have ended in the last minute. */
  endedLastMinute: number;
  values: number[];
};

/** Reads every gauge once a second until `stop`, which returns the summary. `done` returns the number of ended calls. */
export function watch(gauges: readonly Gauge[], done: () => Promise<number>) {
  const samples: Sample[] = [];
  const stopped = new AbortController();
  const readAll = async (): Promise<void> => {
    const values = await Promise.all(gauges.map(({ read }) => read()));
    const [at, now] = [performance.now(), await done()];
    const before = samples.findLast((sample) => sample.at < at - WINDOW_MS)?.done;
    samples.push({
      at,
      done: now,
      endedLastMinute: before === undefined ? Number.NaN : now - before,
      values,
    });
  };
  const reading = (async () => {
    while (!stopped.signal.aborted) {
      await readAll();
      await delay(EVERY_MS, stopped.signal).catch(() => {});
    }
  })();
  reading.catch(() => {}); // `stop` rejects with the same error
  return {
    async stop(calls: number): Promise<Footprints> {
      stopped.abort();
      await reading;
      return summarise(gauges, samples, calls);
    },
  };
}

function summarise(gauges: readonly Gauge[], samples: readonly Sample[], calls: number): Footprints {
  const parts = Array.from({ length: PARTS }, (_, part) =>
    samples.filter(({ done }) => Math.min(PARTS - 1, Math.floor((done * PARTS) / calls)) === part),
  );
  const toFootprint = ({ name, flat }: Gauge, at: number): Footprint => {
    const valueIn = ({ values }: Sample) => values[at] ?? Number.NaN;
    const atStart = valueIn(samples[0] as Sample);
    const fifths = parts.map((part) => quantile(part.map(valueIn), 0.25));
    const perCall = parts.map((part) =>
      median(
        part
          .filter(({ endedLastMinute }) => endedLastMinute > 0)
          .map((sample) => (valueIn(sample) - atStart) / sample.endedLastMinute),
      ),
    );
    const growth = growthOf(flat === "bytes for each call" ? perCall : fifths);
    return { name, flat, atStart, fifths, growth, most: Math.max(...samples.map(valueIn)) };
  };
  return { perSecond: parts.map(rateIn), gauges: gauges.map(toFootprint) };
}

function rateIn(part: readonly Sample[]): number {
  const [first, last] = [part[0], part.at(-1)];
  if (first === undefined || last === undefined) return Number.NaN;
  return ((last.done - first.done) * 1000) / (last.at - first.at);
}

function growthOf(fifths: readonly number[]): number {
  return Math.max(...[3, 4].map((at) => (fifths[at] ?? Number.NaN) / (fifths[1] ?? Number.NaN)));
}

export function hasGrown({ flat, growth }: Footprint): boolean {
  return flat !== undefined && !(growth <= GROWTH_MAX);
}
