import type { Part } from "../../shared/dev/process.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { delay } from "../../shared/time/clock.ts";
import { rssBytesOf } from "./proc.ts";
import type { Probe } from "./redis-probe.ts";
import { median } from "./statistics.ts";

const EVERY_MS = 1000;
const PARTS = 5;
const GROWTH_MAX = 1.15;

/** Bytes of one thing, asked for again and again. */
export type Gauge = {
  name: string;
  read(): number | Promise<number>;
  /** Whether it has to stay as it is; it may follow the rate where it holds what came in the last minute. */
  flat: "always" | "by rate" | undefined;
};

export type Footprint = Pick<Gauge, "name" | "flat"> & {
  /** Before the first call. */
  atStart: number;
  /** The median in each fifth of the calls: a collector's heap goes up and down all the time. */
  fifths: number[];
  most: number;
  /** The fourth or the fifth fifth by the second, whichever has grown more. */
  growth: number;
};

export type Footprints = { perSecond: number[]; gauges: Footprint[] };

export function gaugesOfPart(name: string, { process }: Part): Gauge[] {
  return [{ name: `${name}, RSS`, read: () => rssBytesOf(process.pid), flat: "always" }];
}

/** Its append-only file grows until Redis rewrites it, so it is shown and not judged. */
export function gaugesOfRedis(name: string, { pid }: PrivateRedis, probe: Probe): Gauge[] {
  return [
    { name: `${name}, used_memory`, read: probe.usedBytes, flat: "by rate" },
    { name: `${name}, RSS`, read: () => rssBytesOf(pid), flat: "by rate" },
    { name: `${name}, append-only file`, read: probe.aofBytes, flat: undefined },
  ];
}

type Sample = { at: number; done: number; values: number[] };

/** Reads every gauge once a second, until `stop`, which says what came of it. `done` is how many calls have ended. */
export function watch(gauges: readonly Gauge[], done: () => Promise<number>) {
  const samples: Sample[] = [];
  const stopped = new AbortController();
  const look = async (): Promise<void> => {
    const values = await Promise.all(gauges.map(({ read }) => read()));
    samples.push({ at: performance.now(), done: await done(), values });
  };
  const looking = (async () => {
    while (!stopped.signal.aborted) {
      await look();
      await delay(EVERY_MS, stopped.signal).catch(() => {});
    }
  })();
  looking.catch(() => {}); // `stop` rejects with it
  return {
    async stop(calls: number): Promise<Footprints> {
      stopped.abort();
      await looking;
      return summarise(gauges, samples, calls);
    },
  };
}

function summarise(gauges: readonly Gauge[], samples: readonly Sample[], calls: number): Footprints {
  const parts = Array.from({ length: PARTS }, (_, part) =>
    samples.filter(({ done }) => Math.min(PARTS - 1, Math.floor((done * PARTS) / calls)) === part),
  );
  const perSecond = parts.map(rateIn);
  const toFootprint = ({ name, flat }: Gauge, at: number): Footprint => {
    const values = (of: readonly Sample[]) => of.map((sample) => sample.values[at] ?? Number.NaN);
    const fifths = parts.map((part) => median(values(part)));
    const growth = growthOf(fifths, flat === "by rate" ? perSecond : []);
    return {
      ...{ name, flat, fifths, growth },
      atStart: values(samples)[0] ?? Number.NaN,
      most: Math.max(...values(samples)),
    };
  };
  return { perSecond, gauges: gauges.map(toFootprint) };
}

function rateIn(part: readonly Sample[]): number {
  const [first, last] = [part[0], part.at(-1)];
  if (first === undefined || last === undefined) return Number.NaN;
  return ((last.done - first.done) * 1000) / (last.at - first.at);
}

/** Where the rate counts, only what has grown more than the rate has. */
function growthOf(fifths: readonly number[], perSecond: readonly number[]): number {
  const sinceSecond = (values: readonly number[], at: number) => (values[at] ?? 1) / (values[1] ?? 1);
  return Math.max(...[3, 4].map((at) => sinceSecond(fifths, at) / Math.max(1, sinceSecond(perSecond, at))));
}

export function hasGrown({ flat, growth }: Footprint): boolean {
  return flat !== undefined && !(growth <= GROWTH_MAX);
}
