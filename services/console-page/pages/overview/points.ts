import type { Flow, FlowLine } from "../../api/flow.ts";

/** A percentile of each span, oldest first; null where no call was delivered. */
type Percentiles = readonly (number | null)[];

type Latency = { origin: string; p50: Percentiles; p99: Percentiles };

/** Points of the charts. */
export type Points = {
  stepMs: number;
  /** Start of each span, unix ms. */
  times: number[];
  /** Calls a second, of all lines together; null where no process reported. */
  rates: Record<keyof Counts, (number | null)[]>;
  /** From accepted to the runner's answer without the time held back, in ms. Percentiles do not add up, so each origin has its own. */
  latency: Latency[];
  /** Time in which a job was paused or a call had failed, in ms, of the calls of which that is so. */
  held: Latency[];
  isEmpty: boolean;
};

type Counts = Pick<FlowLine, "accepted" | "refused" | "injected" | "failed">;

/** Makes points of whole spans: a span that has only begun would look as if calls had stopped. Undefined if there is no line. */
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
    whole(values).map((value, i) => (missing[i] === true ? null : (value * 1000) / stepMs));
  return {
    stepMs,
    times: whole(first.accepted).map((_, i) => Date.parse(from) + i * stepMs),
    rates: {
      accepted: perSecond(all.accepted),
      refused: perSecond(all.refused),
      injected: perSecond(all.injected),
      failed: perSecond(all.failed),
    },
    latency: lines.map(({ origin, p50_ms, p99_ms }) => ({ origin, p50: whole(p50_ms), p99: whole(p99_ms) })),
    held: lines.map(({ origin, held_p50_ms, held_p99_ms }) => ({
      origin,
      p50: whole(held_p50_ms),
      p99: whole(held_p99_ms),
    })),
    isEmpty: Object.values(all).every((values) => values.every((value) => value === 0)),
  };
}

function whole<Value>(values: readonly Value[]): Value[] {
  return values.slice(0, -1);
}
