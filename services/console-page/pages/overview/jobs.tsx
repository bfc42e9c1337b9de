import { Fragment } from "preact";
import type { FlowJob } from "../../api/flow.ts";
import { useNamedJobs } from "../../api/names.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { count } from "../../ui/number.ts";
import type { Span } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { titleOf } from "../../ui/why.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";

type Props = {
  jobs: readonly FlowJob[];
  span: Span;
  /** Whether `jobs` is filtered by job or origin. */
  isFiltered: boolean;
};

/**
 * Lists the jobs with the outcomes of their calls in the time span, the busiest job first. Jobs that have a name in the
 * configuration but no calls in the span follow at the end.
 */
export function FlowJobs({ jobs, span, isFiltered }: Props) {
  const [query] = useQuery();
  const named = useNamedJobs();
  const silent = isFiltered ? [] : named.filter((job) => jobs.every((each) => each.job !== job));
  const sorted = [...jobs].sort((a, b) => b.accepted + b.injected - a.accepted - a.injected);
  if (sorted.length === 0) return null;
  const columns: Column<FlowJob>[] = [
    {
      title: "Job",
      cell: ({ job }) =>
        job === null ? (
          "others"
        ) : (
          <JobName job={job} href={linkTo(["overview"], { ...Object.fromEntries(query), job })} />
        ),
    },
    { title: "Origin", cell: ({ origin }) => origin },
    { title: "Accepted", class: "number", cell: ({ accepted }) => count(accepted) },
    { title: "Injected", class: "number", cell: ({ injected }) => count(injected) },
    {
      title: "Delayed",
      class: "number",
      tone: ({ delayed }) => (delayed > 0 ? "warn-text" : "muted"),
      cell: ({ delayed }) => count(delayed),
    },
    {
      title: "Failures",
      class: "number",
      tone: ({ failed }) => (failed > 0 ? "bad-text" : "muted"),
      cell: ({ failed }) => count(failed),
    },
    { title: "Main reason", class: "wide muted", cell: ({ failures }) => mainReason(failures) },
    { title: "p50", class: "number wide", cell: ({ p50_ms }) => took(p50_ms) },
    { title: "p99", class: "number wide", cell: ({ p99_ms }) => took(p99_ms) },
  ];
  return (
    <Card title={`By job, last ${SPAN_WORDS[span]}`} isBare>
      <DataTable columns={columns} items={sorted} keyOf={({ origin, job }) => `${origin} ${job}`} />
      {silent.length > 0 && (
        <p class="silent-jobs muted small">
          No calls:{" "}
          {silent.map((job, i) => (
            <Fragment key={job}>
              {i > 0 && ", "}
              <JobName job={job} />
            </Fragment>
          ))}
        </p>
      )}
      <p class="card-body muted small">A call that failed twice counts twice.</p>
    </Card>
  );
}

const took = (ms: number | null) => (ms === null ? "–" : duration(ms));

const SPAN_WORDS: Readonly<Record<Span, string>> = { "1h": "hour", "24h": "24 hours" };

/** Returns the most frequent reason of failed attempts. */
function mainReason(failures: Readonly<Record<string, number>>): string {
  const [code] = Object.entries(failures).sort(([, a], [, b]) => b - a)[0] ?? [];
  return code === undefined ? "" : titleOf(code);
}
