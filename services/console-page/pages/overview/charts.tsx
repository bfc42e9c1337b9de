import { useMemo } from "preact/hooks";
import { Card } from "../../ui/card.tsx";
import { Chart, type ChartProps, type Line, type Marker } from "../../ui/chart.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, rate } from "../../ui/number.ts";
import type { Span } from "../../ui/span.tsx";
import { shortDuration } from "../../ui/time.tsx";
import { goTo, linkTo } from "../../url-fragment.ts";
import { windowQuery } from "../calls/window.tsx";
import { MarkerList } from "./markers.tsx";
import type { Points } from "./points.ts";

type ChartsProps = {
  points: Points | undefined;
  job: string | undefined;
  /** Empty for all origins. */
  origin: string;
  span: Span;
  markers: readonly Marker[];
};

/**
 * Shows three charts: the rates of calls, their latency, and the time for which calls were held back. The space of the
 * charts stays free until there is data, so that the page does not jump.
 */
export function Charts({ points, job, origin, span, markers }: ChartsProps) {
  const drawn = useMemo(
    () =>
      points && {
        times: points.times,
        rates: ratesOf(points, job),
        latency: latencyOf(points.latency),
        held: latencyOf(points.held),
      },
    [points, job],
  );
  if (points?.isEmpty === true) {
    return (
      <section class="card chart-room">
        <NoCallsNotice job={job} origin={origin} span={span} />
      </section>
    );
  }
  const stepMs = points?.stepMs ?? 0;
  const pick = (at: number) => goTo(linkTo(["calls"], { job, origin, ...windowQuery(at, at + stepMs) }));
  const common = { markers, syncKey: "overview", onPick: pick };
  return (
    <>
      <div class="columns even">
        <Card title="Calls per second">
          <div class="chart-room">
            {drawn && (
              <Chart
                {...common}
                label={`Calls per second: ${drawn.rates.map(({ name }) => name).join(", ")}`}
                times={drawn.times}
                lines={drawn.rates}
                format={perSecond}
                formatTick={rate}
                unit="calls/s"
              />
            )}
          </div>
        </Card>
        <Card title="Time from accepted to injected">
          <div class="chart-room">
            {drawn && (
              <LatencyChart
                {...common}
                label="Latency percentiles, accepted to injected, without time paused or failed"
                times={drawn.times}
                lines={drawn.latency}
              />
            )}
          </div>
        </Card>
        {drawn !== undefined && drawn.held.length > 0 && (
          <Card title="Wait before a replay or resume">
            <LatencyChart
              {...common}
              label="Percentiles of the time in which calls were paused or failed"
              times={drawn.times}
              lines={drawn.held}
            />
          </Card>
        )}
      </div>
      <MarkerList markers={markers} />
    </>
  );
}

type LatencyProps = Omit<ChartProps, "format" | "formatTick" | "unit" | "isLogarithmic">;

function LatencyChart(props: LatencyProps) {
  return (
    <Chart
      {...props}
      format={shortDuration}
      formatTick={inSeconds}
      unit="ms or s, logarithmic"
      isLogarithmic
    />
  );
}

function perSecond(value: number): string {
  return `${rate(value)}/s`;
}

function NoCallsNotice({ job, origin, span }: Omit<ChartsProps, "points" | "markers">) {
  const what = origin === "" ? "calls" : `${origin} calls`;
  const of = job === undefined ? "" : ` for job ${job}`;
  return (
    <Empty title={`No ${what}${of} in the last ${span === "1h" ? "hour" : "24 hours"}`}>
      {job === undefined && origin === "" ? (
        <>
          Send one to an endpoint, for example with <code>postern send</code>, or check the configuration
          under <a href={linkTo(["endpoints"])}>Endpoints</a>.
        </>
      ) : (
        <a href={linkTo(["overview"], { span })}>Show all jobs and origins</a>
      )}
    </Empty>
  );
}

/**
 * Writes a time on an axis, in ms or seconds. Minutes are not used, because the axis has its ticks at powers of ten:
 * 100 s is easier to read than 1 min 40 s.
 */
function inSeconds(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${count(ms / 1000)} s`;
}

/**
 * Returns the lines of the rates chart. Refused requests are not counted by job, so there is no line for them if a job
 * is chosen.
 */
function ratesOf({ rates }: Points, job: string | undefined): Line[] {
  const lines: Line[] = [
    { name: "accepted", values: rates.accepted, colour: "accent", isFilled: true },
    { name: "injected", values: rates.injected, colour: "good" },
    { name: "failed", values: rates.failed, colour: "bad" },
  ];
  return job === undefined ? [...lines, { name: "refused", values: rates.refused, colour: "warn" }] : lines;
}

/**
 * Returns the lines of the latency chart. If only one origin has calls, these are two of its percentiles. If several
 * have, the chart has one percentile of each.
 */
function latencyOf(latency: Points["latency"]): Line[] {
  const known = latency.filter(({ p99 }) => p99.some((value) => value !== null));
  const [first] = known;
  if (first === undefined) return [];
  if (known.length > 1) {
    return known.map(({ origin, p99 }, i) => ({
      name: `${origin} p99`,
      values: p99,
      colour: COLOURS[i % COLOURS.length] ?? "muted",
    }));
  }
  return [
    { name: "p50", values: first.p50, colour: "accent" },
    { name: "p99", values: first.p99, colour: "warn" },
  ];
}

const COLOURS = ["accent", "warn", "good", "muted"] as const;
