import { useMemo } from "preact/hooks";
import type { Overview } from "../../api/flow.ts";
import { useJobTitle } from "../../api/names.ts";
import { useOverview } from "../../api/overview.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { joinAnswers, Live, StaleNotice } from "../../ui/live.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Segments } from "../../ui/segments.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { useQuery } from "../../url-fragment.ts";
import { Attention } from "./attention.tsx";
import { Charts } from "./charts.tsx";
import { FlowJobs } from "./jobs.tsx";
import { useMarkers } from "./markers.tsx";
import { Partitions } from "./partitions.tsx";
import { toPoints } from "./points.ts";
import { Processes } from "./processes.tsx";
import { Runners } from "./runners.tsx";
import { Tiles } from "./tiles.tsx";

const ORIGINS = [
  { value: "", name: "all" },
  { value: "webhook", name: "webhook" },
  { value: "x402", name: "x402" },
  { value: "callback", name: "callback" },
] as const;

/** Overview page: problems that need an operator, numbers and charts of calls, and tables of jobs, runners and processes. */
export function OverviewPage() {
  const [query, change] = useQuery();
  const titleOf = useJobTitle();
  const span = useSpan();
  const origin = ORIGINS.find(({ value }) => value === query.get("origin"))?.value ?? "";
  const overview = useOverview();
  const job = query.get("job") || undefined;
  const everyMs = span === "1h" ? 10_000 : 60_000;
  // The event stream sends only one flow, that is, the counts of calls over time. It is that of the chosen job, or of
  // all jobs if none is chosen. The page polls for the other.
  const ofAll = useAnswer("api/v1/flow", { span }, { everyMs, ...(job === undefined && { live: "flow" }) });
  const ofJob = useAnswer(
    job ? "api/v1/flow" : undefined,
    { span, job },
    { everyMs, ...(job && { live: "flow" }) },
  );
  const flow = job === undefined ? ofAll : ofJob;
  const queues = useQueues(job, overview);
  // After the job or span has changed, `data` may still be the earlier answer, and is not shown.
  const known = flow.isCurrent ? flow.data : undefined;
  const isChosen = (each: { origin: string }) => origin === "" || each.origin === origin;
  const points = useMemo(() => known && toPoints(known, known.lines.filter(isChosen)), [known, origin]);
  const markers = useMarkers(known?.from, overview.data?.processes);
  const answers = [overview, ofAll, flow, queues.answer];
  const failing = answers.find(({ refused }) => refused);
  return (
    <>
      <PageHead title="Overview" live={<Live answer={joinAnswers(answers)} />}>
        {job !== undefined && (
          <button type="button" onClick={() => change({ job: "" })}>
            Job {titleOf(job)}: show all
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
      {failing !== undefined && <StaleNotice answer={failing} />}
      <div class="now">
        <Attention overview={overview} flow={ofAll} job={job} />
        <Tiles queues={queues.data} producers={overview.data?.workers.length} origin={origin} job={job} />
      </div>
      <Charts {...{ points, job, origin, span, markers }} />
      {known !== undefined && (
        <FlowJobs
          jobs={known.jobs.filter(isChosen)}
          span={span}
          isFiltered={job !== undefined || origin !== ""}
        />
      )}
      {overview.data !== undefined && <Runners runners={overview.data.runners} />}
      {overview.data !== undefined && <Processes overview={overview.data} />}
      {overview.data !== undefined && <Partitions partitions={overview.data.partitions} />}
    </>
  );
}

/**
 * Returns the numbers of calls in the queues of the job. If no job is chosen, returns those of all jobs, which the
 * overview already contains.
 */
function useQueues(job: string | undefined, overview: Answer<Overview>) {
  const answer = useAnswer(job ? "api/v1/queues" : undefined, { job }, { everyMs: 3000 });
  if (job === undefined) return { answer: overview, data: overview.data?.queues };
  return { answer, data: answer.isCurrent ? answer.data?.queues : undefined };
}
