import type { FlowJob } from "../../api/flow.ts";
import { linkTo, useQuery } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { count } from "../../ui/number.ts";
import type { Span } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { titleOf } from "../../ui/why.tsx";

/** What became of each job's calls in the span, the busiest first. */
export function FlowJobs({ jobs, span }: { jobs: readonly FlowJob[]; span: Span }) {
  const [query] = useQuery();
  const sorted = [...jobs].sort((a, b) => b.accepted + b.injected - a.accepted - a.injected);
  if (sorted.length === 0) return null;
  const took = (ms: number | null) => (ms === null ? "–" : duration(ms));
  return (
    <Card title={`By job, last ${SPAN_WORDS[span]}`} isBare>
      <div class="table-box">
        <table class="stack">
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col">Origin</th>
              <th scope="col" class="number">
                Accepted
              </th>
              <th scope="col" class="number">
                Injected
              </th>
              <th scope="col" class="number">
                Retried
              </th>
              <th scope="col" class="number">
                Failed
              </th>
              <th scope="col" class="wide">
                Main reason
              </th>
              <th scope="col" class="number wide">
                p50
              </th>
              <th scope="col" class="number wide">
                p99
              </th>
            </tr>
          </thead>
          <tbody>
            {sorted.map(({ origin, job, accepted, injected, delayed, failed, failures, p50_ms, p99_ms }) => (
              <tr key={`${origin} ${job}`}>
                <td>
                  {job === null ? (
                    "others"
                  ) : (
                    <a href={linkTo(["flow"], { ...Object.fromEntries(query), job })}>{job}</a>
                  )}
                </td>
                <td data-label="Origin">{origin}</td>
                <td class="number" data-label="Accepted">
                  {count(accepted)}
                </td>
                <td class="number" data-label="Injected">
                  {count(injected)}
                </td>
                <td data-label="Retried" class={`number ${delayed > 0 ? "warn-text" : "muted"}`}>
                  {count(delayed)}
                </td>
                <td data-label="Failed" class={`number ${failed > 0 ? "bad-text" : "muted"}`}>
                  {count(failed)}
                </td>
                <td class="wide muted">{mostly(failures)}</td>
                <td class="number wide">{took(p50_ms)}</td>
                <td class="number wide">{took(p99_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

const SPAN_WORDS: Readonly<Record<Span, string>> = { "1h": "hour", "24h": "24 hours" };

/** The reason of most attempts that failed. */
function mostly(failures: Readonly<Record<string, number>>): string {
  const [code] = Object.entries(failures).sort(([, a], [, b]) => b - a)[0] ?? [];
  return code === undefined ? "" : titleOf(code);
}
