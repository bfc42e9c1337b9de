import { useMemo } from "preact/hooks";
import type { Rate } from "../../api/endpoints.ts";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Empty } from "../../ui/notice.tsx";
import { significant } from "../../ui/number.ts";
import { duration } from "../../ui/time.tsx";

type History = NonNullable<Rate["history"]>;

/** Draws the rate of a token over time, and its configured bounds. */
export function RateChart({ rate, history }: { rate: Rate; history: History }) {
  const drawn = useMemo(() => toDrawn(rate, history), [rate, history]);
  const span = spanWords(history);
  if (drawn === undefined) {
    return (
      <Empty title={`No rate in ${span}`}>
        A running payment gateway reads the source. To test the source now, run{" "}
        <code>postern rates list --test</code>.
      </Empty>
    );
  }
  const { times, lines, words } = drawn;
  return (
    <>
      <p class="small muted">
        In {span}: {words}
      </p>
      <Chart
        label={`Rate of ${rate.symbol} on ${rate.network} in ${span}: ${words}`}
        times={times}
        lines={lines}
        format={significant}
        height={160}
        isFitted
      />
    </>
  );
}

function spanWords({ step_ms: stepMs, values }: History): string {
  const hours = Math.round((stepMs * values.length) / 3_600_000);
  return hours === 1 ? "the last hour" : `the last ${hours} hours`;
}

/** Returns the lines to draw; undefined if there was no rate at all. */
function toDrawn({ min_rate, max_rate }: Rate, { from, step_ms: stepMs, values: texts }: History) {
  const values = texts.map((text) => (text === null ? null : Number(text)));
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return undefined;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const bounds = [
    ...boundLines("minimum", min_rate, values.length, least, most),
    ...boundLines("maximum", max_rate, values.length, least, most),
  ];
  const missingMs = (values.length - known.length) * stepMs;
  const range =
    least === most
      ? `constant at ${significant(least)}`
      : `between ${significant(least)} and ${significant(most)}`;
  const rateLine: Line = { name: "rate", values, colour: "accent", isStepped: true };
  return {
    times: values.map((_, i) => Date.parse(from) + i * stepMs),
    lines: [rateLine, ...bounds],
    words: missingMs === 0 ? `${range}.` : `${range}; no usable rate for ${duration(missingMs)}.`,
  };
}

/**
 * A bound is drawn only if it differs from the rate by at most this factor. With a more distant bound, the axis would
 * cover a range in which the line of the rate looks flat.
 */
const BOUND_RATIO_MAX = 2;

function boundLines(
  name: string,
  text: string | null,
  length: number,
  least: number,
  most: number,
): readonly Line[] {
  const bound = Number(text);
  if (text === null || bound < least / BOUND_RATIO_MAX || bound > most * BOUND_RATIO_MAX) return [];
  return [{ name, values: Array.from({ length }, () => bound), colour: "warn", isDashed: true }];
}
