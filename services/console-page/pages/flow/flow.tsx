import { useMemo } from "preact/hooks";
import type { Overview } from "../../api/flow.ts";
import { useOverview } from "../../api/overview.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { linkTo, useQuery } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Live, together, WhyNot } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, rate } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { type Span, SpanChoice, useSpan } from "../../ui/span.tsx";
import { shortDuration } from "../../ui/time.tsx";
import { Attention } from "./attention.tsx";
import { FlowJobs } from "./jobs.tsx";
import { type Points, toPoints } from "./points.ts";
import { Processes } from "./processes.tsx";
import { Runners } from "./runners.tsx";
import { Tiles } from "./tiles.tsx";

const ORIGINS = [
  { value: "", name: "all" },
  { value: "webhook", name: "webhook" },
  { value: "x402", name: "x402" },
  { value: "callback", name: "callback" },
] as const;

/** What comes in, what goes out, and what is in the way. */
export function FlowPage() {
  const [query, change] = useQuery();
  const span = useSpan();
  const origin = ORIGINS.find(({ value }) => value === query.get("origin"))?.value ?? "";
  const overview = useOverview();
  const job = query.get("job") || undefined;
  const everyMs = span === "1h" ? 10_000 : 60_000;
  // The stream tells of one flow only.
  const ofAll = useAnswer("api/v1/flow", { span }, { everyMs, ...(job === undefined && { live: "flow" }) });
  const ofJob = useAnswer(
    job ? "api/v1/flow" : undefined,
    { span, job },
    { everyMs, ...(job && { live: "flow" }) },
  );
  const flow = job === undefined ? ofAll : ofJob;
  const queues = useQueues(job, overview);
  // What answers another job or span must not stand under this one.
  const known = flow.isCurrent ? flow.data : undefined;
  const isChosen = (each: { origin: string }) => origin === "" || each.origin === origin;
  const points = useMemo(() => known && toPoints(known, known.lines.filter(isChosen)), [known, origin]);
  const answers = [overview, ofAll, flow, queues.answer];
  const failing = answers.find(({ refused }) => refused);
  return (
    <>
      <PageHead title="Flow" live={<Live answer={together(answers)} />}>
        {job !== undefined && (
          <button type="button" onClick={() => change({ job: "" })}>
            Job {job}: show all
          </button>
        )}
        <Segments
          label="Origin"
          options={ORIGINS}
          value={origin}
          onChange={(value) => change({ origin: value })}
        />
        <SpanChoice />
      </PageHead>
      {failing !== undefined && <WhyNot answer={failing} />}
      <div class="now">
        <Attention overview={overview} flow={ofAll} job={job} />
        <Tiles
          points={points}
          queues={queues.data}
          producers={overview.data?.workers.length}
          origin={origin}
          job={job}
        />
      </div>
      <Charts points={points} job={job} origin={origin} span={span} />
      {known !== undefined && <FlowJobs jobs={known.jobs.filter(isChosen)} span={span} />}
      {overview.data !== undefined && <Runners runners={overview.data.runners} />}
      {overview.data !== undefined && <Processes overview={overview.data} />}
    </>
  );
}

/** Reads the queues of the job. Without a job the overview has them. */
function useQueues(job: string | undefined, overview: Answer<Overview>) {
  const answer = useAnswer(job ? "api/v1/queues" : undefined, { job }, { everyMs: 3000 });
  if (job === undefined) return { answer: overview, data: overview.data?.queues };
  return { answer, data: answer.isCurrent ? answer.data?.queues : undefined };
}

type ChartsProps = { points: Points | undefined; job: string | undefined; origin: string; span: Span };

/** They have their place before there is anything to draw. */
function Charts({ points, job, origin, span }: ChartsProps) {
  const drawn = useMemo(
    () => points && { times: points.times, rates: ratesOf(points, job), latency: latencyOf(points) },
    [points, job],
  );
  if (points?.isEmpty === true) {
    return (
      <section class="card chart-room">
        <NothingCame job={job} origin={origin} span={span} />
      </section>
    );
  }
  return (
    <div class="columns even">
      <Card title="Calls per second">
        <div class="chart-room">
          {drawn && (
            <Chart
              label={`Calls per second: ${drawn.rates.map(({ name }) => name).join(", ")}`}
              times={drawn.times}
              lines={drawn.rates}
              format={rate}
            />
          )}
        </div>
      </Card>
      <Card title="Latency, accepted to injected">
        <div class="chart-room">
          {drawn && (
            <Chart
              label="Latency percentiles, accepted to injected"
              times={drawn.times}
              lines={drawn.latency}
              format={shortDuration}
              formatTick={inSeconds}
              isLogarithmic
            />
          )}
        </div>
      </Card>
    </div>
  );
}

function NothingCame({ job, origin, span }: Omit<ChartsProps, "points">) {
  const what = origin === "" ? "calls" : `${origin} calls`;
  const of = job === undefined ? "" : ` for job ${job}`;
  return (
    <Empty title={`No ${what}${of} in the last ${span === "1h" ? "hour" : "24 hours"}`}>
      {job === undefined && origin === "" ? (
        <>
          Send one to an endpoint, for example with <code>postern send</code>, or check the configuration
          under <a href="#/endpoints">Endpoints and jobs</a>.
        </>
      ) : (
        <a href={linkTo(["flow"], { span })}>Show all jobs and sources</a>
      )}
    </Empty>
  );
}

/** Powers of ten, which minutes and hours are not. */
function inSeconds(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${count(ms / 1000)} s`;
}

/** Refusals belong to no job. */
function ratesOf({ rates }: Points, job: string | undefined): Line[] {
  const lines: Line[] = [
    { name: "accepted", values: rates.accepted, colour: "accent", isFilled: true },
    { name: "injected", values: rates.injected, colour: "good" },
    { name: "failed", values: rates.failed, colour: "bad" },
  ];
  return job === undefined ? [...lines, { name: "refused", values: rates.refused, colour: "warn" }] : lines;
}

/** Of one origin two percentiles, of several one each. */
function latencyOf({ latency }: Points): Line[] {
  const known = latency.filter(({ p99 }) => p99.some((value) => value !== null));
  const [first] = known;
  if (first === undefined || known.length > 1) {
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
