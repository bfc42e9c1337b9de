import type { Flow, FlowLine } from "../../api/flow.ts";

/** Value of a percentile in each interval, oldest first; null for an interval in which no call was injected. */
type Percentiles = readonly (number | null)[];

type Latency = { origin: string; p50: Percentiles; p99: Percentiles };

/** Data of the charts on the overview page and on the page of a job. */
export type Points = {
  stepMs: number;
  /** Start of each interval, unix ms. */
  times: number[];
  /**
   * Calls per second, of all origins together. Null for an interval in which no process reported, so that the number is
   * unknown.
   */
  rates: Record<keyof Counts, (number | null)[]>;
  /**
   * Time in ms from accepted to the runner's answer, without the time in `held`. Each origin has its own percentiles,
   * because percentiles cannot be added.
   */
  latency: Latency[];
  /**
   * Time in ms for which calls were held back, because their job was paused or they had failed. Calls that were not
   * held back are not counted.
   */
  held: Latency[];
  isEmpty: boolean;
};

type Counts = Pick<FlowLine, "accepted" | "refused" | "injected" | "failed">;

/**
 * Converts the console's answer into data for the charts. Leaves out the last interval, which has only begun and would
 * look as if calls had stopped. Returns undefined if there is no line.
 */
export function toPoints(
  { from, step_ms: stepMs, missing }: Flow,
  lines: readonly FlowLine[],
): Points | undefined {
  const [first] = lines;
  if (first === undefined) return undefined;
  const sums = (name: keyof Counts) =>
    first[name].map((_, i) => lines.reduce((sum, { [name]: values }) => sum + (values[i] ?? 0), 0));
  const all = {
    accepted: sums("accepted"),
    refused: sums("refused"),
    injected: sums("injected"),
    failed: sums("failed"),
  };
  const perSecond = (values: readonly number[]) =>
    integers(values).map((value, i) => (missing[i] === true ? null : (value * 1000) / stepMs));
  return {
    stepMs,
    times: integers(first.accepted).map((_, i) => Date.parse(from) + i * stepMs),
    rates: {
      accepted: perSecond(all.accepted),
      refused: perSecond(all.refused),
      injected: perSecond(all.injected),
      failed: perSecond(all.failed),
    },
    latency: lines.map(({ origin, p50_ms, p99_ms }) => ({
      origin,
      p50: integers(p50_ms),
      p99: integers(p99_ms),
    })),
    held: lines.map(({ origin, held_p50_ms, held_p99_ms }) => ({
      origin,
      p50: integers(held_p50_ms),
      p99: integers(held_p99_ms),
    })),
    isEmpty: Object.values(all).every((values) => values.every((value) => value === 0)),
  };
}

function integers<Value>(values: readonly Value[]): Value[] {
  return values.slice(0, -1);
}
