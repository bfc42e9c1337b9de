import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { delay } from "../../shared/platform/time/clock.ts";
import { rssBytesOf } from "./proc.ts";
import type { Probe } from "./redis-probe.ts";
import { WINDOW_SECS } from "./soak-world.ts";
import { median, quantile } from "./statistics.ts";

const EVERY_MS = 1000;
/** Interval at which the bench makes a process collect its garbage (heap.ts). It is long, because this slows the process. */
const COLLECT_EVERY_MS = 10_000;
const PARTS = 5;
const GROWTH_MAX = 1.15;
/** Time for which Redis remembers a call of the soak, in milliseconds. */
const WINDOW_MS = WINDOW_SECS * 1000;

/** A value in bytes, such as the RSS of a process, which the bench reads periodically. */
export type Gauge = {
  name: string;
  read(): number | Promise<number>;
  /**
   * Value that must not grow: the bytes, or the bytes divided by the number of calls that ended in the last minute. Redis
   * remembers these calls, so it needs more memory at a higher rate. Undefined if the gauge may grow.
   */
  flat: "bytes" | "bytes for each call" | undefined;
};

export type Footprint = Pick<Gauge, "name" | "flat"> & {
  /** Value before the first call. */
  atStart: number;
  /** First quartile of the values in each fifth of the run. Short peaks do not affect a quartile. */
  fifths: number[];
  most: number;
  /**
   * Value of the fourth or the last fifth, the higher of both, divided by the value of the second fifth. The first fifth does
   * not count, because memory must grow until the first calls expire.
   */
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
 * Returns the gauges of a Redis server. Only `used_memory` must not grow. The RSS follows it anyway, and the append-only file
 * grows until Redis rewrites it.
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
