import { useMemo } from "preact/hooks";
import type { Flow, FlowLine } from "../../api/flow.ts";
import { useOverview } from "../../api/overview.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { useQuery } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, rate } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { Attention } from "./attention.tsx";
import { FlowJobs } from "./jobs.tsx";
import { Processes } from "./processes.tsx";
import { Runners } from "./runners.tsx";
import { growingSteps, Tiles } from "./tiles.tsx";

const ORIGINS = [
  { value: "", name: "all" },
  { value: "webhook", name: "webhooks" },
  { value: "x402", name: "paid" },
  { value: "callback", name: "callbacks" },
] as const;

/** What comes in, what goes out, and what is in the way. */
export function FlowPage() {
  const [query, change] = useQuery();
  const span = useSpan();
  const origin = ORIGINS.find(({ value }) => value === query.get("origin"))?.value ?? "";
  const overview = useOverview();
  const job = query.get("job") ?? undefined;
  const everyMs = span === "1h" ? 10_000 : 60_000;
  const flow = useAnswer<Flow>("api/v1/flow", { span, job }, { everyMs, live: "flow" });
  const lines = useMemo(
    () => flow.data?.lines.filter((each) => origin === "" || each.origin === origin),
    [flow.data, origin],
  );
  return (
    <>
      <PageHead title="Flow" live={<Live answer={overview} />}>
        {job !== undefined && (
          <button type="button" onClick={() => change({ job: "" })}>
            Job {job} only, show all
          </button>
        )}
        <Segments
          label="Came by"
          options={ORIGINS}
          value={origin}
          onChange={(value) => change({ origin: value })}
        />
        <SpanChoice />
      </PageHead>
      <WhyNot answer={overview.refused === undefined ? flow : overview} />
      <div class="now">
        <Attention overview={overview.data} flow={job === undefined ? flow.data : undefined} />
        <Tiles lines={lines} stepMs={flow.data?.step_ms} overview={overview.data} origin={origin} />
      </div>
      <Charts flow={flow.data} lines={lines} />
      {flow.data !== undefined && (
        <FlowJobs jobs={flow.data.jobs.filter((each) => origin === "" || each.origin === origin)} />
      )}
      {overview.data !== undefined && <Runners runners={overview.data.runners} />}
      {overview.data !== undefined && <Processes overview={overview.data} />}
    </>
  );
}

/** The lines of several origins as one. Percentiles do not add up, so they stay with their origins. */
function sumOf(lines: readonly FlowLine[]): Counts | undefined {
  const [first, ...rest] = lines;
  if (first === undefined) return undefined;
  const sums = (name: keyof Counts) =>
    first[name].map((value, i) => rest.reduce((sum, each) => sum + (each[name][i] ?? 0), value));
  return {
    accepted: sums("accepted"),
    refused: sums("refused"),
    injected: sums("injected"),
    failed: sums("failed"),
  };
}

/** As much is shown as one. Single steps of ten seconds are mostly noise. */
const POINT_MS = 60_000;

/** They have their place before there is anything to draw. */
function Charts({ flow, lines }: { flow: Flow | undefined; lines: readonly FlowLine[] | undefined }) {
  const drawn = useMemo(() => flow && lines && toPoints(flow, lines), [flow, lines]);
  if (drawn?.isEmpty === true) {
    return (
      <section class="card chart-room">
        <Empty title="Nothing has come in">
          Send something to an endpoint, as with <code>postern send</code>, or look under{" "}
          <a href="#/endpoints">Endpoints and jobs</a> for what is configured.
        </Empty>
      </section>
    );
  }
  return (
    <div class="columns even">
      <Card title="Calls a second">
        <div class="chart-room">
          {drawn && (
            <Chart
              label="Calls accepted, delivered, failed and refused each second"
              times={drawn.times}
              lines={drawn.rates}
              format={rate}
            />
          )}
        </div>
      </Card>
      <Card title="From accepted to the runner's answer">
        <div class="chart-room">
          {drawn && (
            <Chart
              label="Percentiles of how long calls took"
              times={drawn.times}
              lines={drawn.latency}
              format={duration}
              formatTick={inSeconds}
              isLogarithmic
            />
          )}
        </div>
      </Card>
    </div>
  );
}

/** Powers of ten, which minutes and hours are not. */
function inSeconds(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${count(ms / 1000)} s`;
}

type Counts = Pick<FlowLine, "accepted" | "refused" | "injected" | "failed">;

type Points = { times: number[]; rates: Line[]; latency: Line[]; isEmpty: boolean };

/** Of whole steps: one that still grows would look as if all calls had stopped. */
function toPoints({ from, step_ms: stepMs }: Flow, lines: readonly FlowLine[]): Points | undefined {
  const sums = sumOf(lines);
  if (sums === undefined) return undefined;
  const whole = sums.accepted.length - growingSteps(stepMs);
  const size = Math.max(1, Math.round(POINT_MS / stepMs));
  const starts = Array.from({ length: Math.floor(whole / size) }, (_, i) => (whole % size) + i * size);
  const points = <Value,>(values: readonly Value[], join: (some: readonly Value[]) => Value) =>
    starts.map((start) => join(values.slice(start, start + size)));
  const perSecond = (values: readonly number[]) =>
    points(values, (some) => (some.reduce((sum, each) => sum + each, 0) * 1000) / (size * stepMs));
  const most = (values: readonly (number | null)[]) => points(values, (some) => some.reduce(maxOf, null));
  return {
    times: starts.map((start) => Date.parse(from) + start * stepMs),
    rates: [
      { name: "accepted", values: perSecond(sums.accepted), colour: "accent", isFilled: true },
      { name: "delivered", values: perSecond(sums.injected), colour: "good" },
      { name: "failed", values: perSecond(sums.failed), colour: "bad" },
      { name: "refused", values: perSecond(sums.refused), colour: "warn" },
    ],
    latency: latencyOf(lines, most),
    isEmpty: Object.values(sums).every((values) => values.every((value) => value === 0)),
  };
}

type Percentiles = (number | null)[];

/** Of one origin two percentiles, of several one each. */
function latencyOf(lines: readonly FlowLine[], toValues: (values: Percentiles) => Percentiles): Line[] {
  const known = lines.filter(({ p99_ms }) => p99_ms.some((value) => value !== null));
  const [first] = known;
  if (first === undefined || known.length > 1) {
    return known.map(({ origin, p99_ms }, i) => ({
      name: `${origin} p99`,
      values: toValues(p99_ms),
      colour: COLOURS[i % COLOURS.length] ?? "muted",
    }));
  }
  return [
    { name: "p50", values: toValues(first.p50_ms), colour: "accent" },
    { name: "p99", values: toValues(first.p99_ms), colour: "warn" },
  ];
}

const COLOURS = ["accent", "warn", "good", "muted"] as const;

function maxOf(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}
