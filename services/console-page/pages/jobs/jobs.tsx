import { useState } from "preact/hooks";
import { whyNoJobKey } from "../../../../shared/call/job-ids.ts";
import type { Job } from "../../api/jobs.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Ago, duration, Time } from "../../ui/time.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";
import { PauseDialog } from "./pause.tsx";

/** Number of jobs on a page. The event stream, which replaces polls of the first page, sends as many. */
const SHOWN = 200;

/** Lists the jobs, the calls that wait at each, what delays them, and the button that pauses or resumes the job. */
export function JobsPage() {
  const [cursor, goTo] = useState<string | undefined>();
  const answer = useAnswer(
    "api/v1/jobs",
    { limit: SHOWN, cursor },
    { everyMs: 3000, ...(cursor === undefined && { live: "jobs" }) },
  );
  const [chosen, choose] = useState<Job | undefined>();
  const { jobs, next = null } = answer.data ?? {};
  const close = () => {
    choose(undefined);
    answer.reload();
  };
  return (
    <>
      <PageHead title="Jobs" live={<Live answer={answer} />} />
      <StaleNotice answer={answer} />
      <Card title="Queues of each job" isBare>
        {jobs?.length === 0 && (
          <Empty title="No jobs yet">
            A job is listed here after its first call, or when it has a name or a limit.
          </Empty>
        )}
        {jobs !== undefined && jobs.length > 0 && <Table jobs={jobs} onChoose={choose} />}
      </Card>
      <p class="muted small">
        A job that has neither a name in <code>job_pricing.toml</code> nor a limit is listed until an hour
        after its last call.
      </p>
      {(cursor !== undefined || next !== null) && (
        <p>
          <button type="button" disabled={cursor === undefined} onClick={() => goTo(undefined)}>
            First page
          </button>{" "}
          <button type="button" disabled={next === null} onClick={() => goTo(next ?? undefined)}>
            Next page
          </button>
        </p>
      )}
      {chosen !== undefined && <PauseDialog job={chosen} onClose={close} />}
    </>
  );
}

function Table({ jobs, onChoose }: { jobs: readonly Job[]; onChoose: (job: Job) => void }) {
  const [query] = useQuery();
  const mayOperate = useMayOperate();
  const actions: Column<Job> = {
    title: "Actions",
    isTitleHidden: true,
    class: "number",
    cell: (job) =>
      mayOperate && (
        <button type="button" onClick={() => onChoose(job)}>
          {job.paused === undefined ? "Pause…" : "Resume…"}
        </button>
      ),
  };
  return (
    <DataTable
      columns={[...COLUMNS, actions]}
      items={jobs}
      keyOf={({ job }) => job}
      isChosen={({ job }) => query.get("job") === job}
    />
  );
}

const COLUMNS: readonly Column<Job>[] = [
  {
    title: "Job",
    cell: (job) => (
      <>
        <JobName job={job.job} /> <span class="muted small wide">{job.origins.join(", ")}</span>
      </>
    ),
  },
  { title: "State", class: "whole", isUnlabelled: true, cell: (job) => <JobState job={job} /> },
  { title: "Waiting", class: "number", cell: ({ waiting }) => count(waiting) },
  { title: "Delayed", class: "number wide", cell: ({ delayed }) => count(delayed) },
  { title: "Held", class: "number wide", cell: ({ held }) => count(held) },
  { title: "In flight", class: "number wide", cell: ({ active }) => count(active) },
  { title: "Failed", class: "number", cell: (job) => <Failed job={job} /> },
  {
    title: "Oldest waiting",
    class: "number",
    cell: ({ oldest_age_ms: ms }) => (ms === null ? <span class="muted">–</span> : duration(ms)),
  },
  { title: "Limits", class: "wide", cell: limitsOf },
];

function Failed({ job }: { job: Job }) {
  const link = failedLinkOf(job);
  if (job.failed === 0) return <span class="muted">0</span>;
  return link === undefined ? (
    <span class="bad-text" title={AMONG_CALLBACKS}>
      {count(job.failed)}
    </span>
  ) : (
    <a class="bad-text" href={link}>
      {count(job.failed)}
    </a>
  );
}

const AMONG_CALLBACKS = "On the Failed page, choose the origin “callback” to see these calls.";

/** Whether the row is a job. A receiver of callbacks is listed and paused like a job, but is not one. */
function isJob({ job }: Job): boolean {
  return whyNoJobKey(job) === undefined;
}

/**
 * Returns a link to the list of the failed calls that this row counts. The user can discard all calls in that list at
 * once, so it should have no others. Returns undefined for the row of one receiver of callbacks, because no filter
 * selects only its callbacks.
 */
function failedLinkOf(job: Job): string | undefined {
  if (job.job === "callback") return linkTo(["failed"], { origin: "callback" });
  if (!isJob(job)) return undefined;
  // The Failed page's filter by job also finds callbacks about the job's calls. This row does not count them, because
  // the row of their receiver does. So the link also filters by origin, which excludes callbacks. But a filter can name only
  // one origin, so the list of a job with several origins does show callbacks.
  const [origin, ...more] = job.origins;
  return linkTo(["failed"], { job: job.job, origin: more.length === 0 ? origin : undefined });
}

export function JobState({
  job: { state, paused, paused_partitions: reached, throttled_until },
}: {
  job: Job;
}) {
  if (paused !== undefined) {
    const where =
      reached && reached.paused < reached.of ? ` in ${reached.paused} of ${reached.of} partitions` : "";
    return (
      <>
        <Badge tone="warn">paused{where}</Badge>
        <span class="step-aside small muted">
          <Ago at={paused.at} /> by {paused.by}: {paused.reason}
        </span>
      </>
    );
  }
  if (state === "throttled") {
    return (
      <>
        <Badge tone="warn">throttled</Badge>
        {throttled_until !== undefined && (
          <span class="step-aside small muted">
            at its runner's request until <Time at={throttled_until} mayBeAhead />
          </span>
        )}
      </>
    );
  }
  return <Badge tone="good">running</Badge>;
}

export function limitsOf({ concurrency, rate }: Job): string {
  const limits = [
    ...(concurrency === null ? [] : [`${concurrency} at once`]),
    ...(rate === null ? [] : [`${rate.calls} per ${duration(rate.period_ms)}`]),
  ];
  return limits.length === 0 ? "none" : limits.join(", ");
}
