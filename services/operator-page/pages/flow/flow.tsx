import { useMemo } from "preact/hooks";
import type { Flow, FlowLine } from "../../api/flow.ts";
import { useOverview } from "../../api/overview.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { useQuery } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { rate } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { duration } from "../../ui/time.tsx";
import { Attention } from "./attention.tsx";
import { FlowJobs } from "./jobs.tsx";
import { Processes } from "./processes.tsx";
import { Tiles } from "./tiles.tsx";

const SPANS = [
  { value: "1h", name: "1 hour" },
  { value: "24h", name: "24 hours" },
] as const;

const ORIGINS = [
  { value: "", name: "all" },
  { value: "webhook", name: "webhooks" },
  { value: "x402", name: "paid" },
  { value: "callback", name: "callbacks" },
] as const;

/** What comes in, what goes out, and what is in the way. */
export function FlowPage() {
  const [query, change] = useQuery();
  const span = query.get("span") === "24h" ? "24h" : "1h";
  const origin = ORIGINS.find(({ value }) => value === query.get("origin"))?.value ?? "";
  const overview = useOverview();
  const job = query.get("job") ?? undefined;
  const everyMs = span === "1h" ? 10_000 : 60_000;
  const flow = useAnswer<Flow>("api/v1/flow", { span, job }, { everyMs, live: "flow" });
  const line = useMemo(() => flow.data && sumOf(flow.data, origin), [flow.data, origin]);
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
        <Segments label="Span" options={SPANS} value={span} onChange={(value) => change({ span: value })} />
      </PageHead>
      <WhyNot answer={overview} />
      <Attention overview={overview.data} />
      <Tiles line={line} stepMs={flow.data?.step_ms} overview={overview.data} origin={origin} />
      {flow.data !== undefined && line !== undefined && <Charts flow={flow.data} line={line} />}
      {flow.data !== undefined && (
        <FlowJobs jobs={flow.data.jobs.filter((each) => origin === "" || each.origin === origin)} />
      )}
      {overview.data !== undefined && <Processes overview={overview.data} />}
    </>
  );
}

/** The lines of several origins as one. Percentiles do not add up: those of the origin with the slower calls stand for all. */
function sumOf({ lines }: Flow, origin: string): FlowLine | undefined {
  const own = lines.filter((each) => origin === "" || each.origin === origin);
  const [first, ...rest] = own;
  if (first === undefined) return undefined;
  const sums = (name: "accepted" | "refused" | "injected" | "failed") =>
    first[name].map((value, i) => rest.reduce((sum, each) => sum + (each[name][i] ?? 0), value));
  const slowest = (name: "p50_ms" | "p99_ms") =>
    first[name].map((value, i) =>
      rest.reduce<number | null>((most, each) => maxOf(most, each[name][i] ?? null), value),
    );
  return {
    origin,
    accepted: sums("accepted"),
    refused: sums("refused"),
    injected: sums("injected"),
    failed: sums("failed"),
    p50_ms: slowest("p50_ms"),
    p99_ms: slowest("p99_ms"),
  };
}

function maxOf(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}

function Charts({ flow: { from, step_ms }, line }: { flow: Flow; line: FlowLine }) {
  const times = useMemo(
    () => line.accepted.map((_, i) => Date.parse(from) + i * step_ms),
    [from, step_ms, line],
  );
  const [perSecond, latency] = useMemo(() => [ratesOf(line, step_ms), latencyOf(line)], [line, step_ms]);
  const isEmpty = [line.accepted, line.refused, line.injected, line.failed].every((values) =>
    values.every((value) => value === 0),
  );
  if (isEmpty) {
    return (
      <section class="card">
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
        <Chart
          label="Calls accepted, delivered, failed and refused each second"
          times={times}
          lines={perSecond}
          format={rate}
        />
      </Card>
      <Card title="From accepted to the runner's answer">
        <Chart
          label="Half of the calls, and 99 of 100, took no longer than this"
          times={times}
          lines={latency}
          format={duration}
          isLogarithmic
        />
      </Card>
    </div>
  );
}

function ratesOf(line: FlowLine, stepMs: number): Line[] {
  const per = (values: readonly number[]) => values.map((value) => (value * 1000) / stepMs);
  return [
    { name: "accepted", values: per(line.accepted), colour: "accent", isFilled: true },
    { name: "delivered", values: per(line.injected), colour: "good" },
    { name: "failed", values: per(line.failed), colour: "bad" },
    { name: "refused", values: per(line.refused), colour: "warn" },
  ];
}

function latencyOf(line: FlowLine): Line[] {
  return [
    { name: "half took less than", values: line.p50_ms, colour: "accent" },
    { name: "99 of 100 took less than", values: line.p99_ms, colour: "warn" },
  ];
}
