import type { Endpoint } from "../../api/endpoints.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Ago } from "../../ui/time.tsx";
import { credentialFault } from "../../ui/why.tsx";
import { linkTo } from "../../url-fragment.ts";
import { EndpointState } from "./state.tsx";

/** Lists the endpoints, with their requests of the last day and the reasons why some were refused. */
export function EndpointsPage() {
  const answer = useAnswer("api/v1/endpoints", {}, { everyMs: 10_000 });
  const endpoints = answer.data?.endpoints;
  return (
    <>
      <PageHead title="Endpoints" live={<Live answer={answer} />} />
      <StaleNotice answer={answer} />
      <Card title="Webhook endpoints, last 24 hours" isBare>
        {endpoints?.length === 0 && (
          <Empty title="No endpoints configured">
            Add one to <code>webhooks.toml</code> (see <code>docs/webhooks.md</code>), then start{" "}
            <code>postern webhooks</code>.
          </Empty>
        )}
        {endpoints !== undefined && endpoints.length > 0 && (
          <DataTable columns={COLUMNS} items={endpoints} keyOf={({ path }) => path} />
        )}
      </Card>
    </>
  );
}

const COLUMNS: readonly Column<Endpoint>[] = [
  {
    title: "Endpoint",
    cell: (endpoint) => (
      <>
        <a class="mono wrap" href={linkTo(["endpoints", endpoint.path])}>
          {endpoint.path}
        </a>
        <EndpointState endpoint={endpoint} />
        <span class="step-aside small muted wrap">{factsOf(endpoint)}</span>
      </>
    ),
  },
  { title: "Jobs", class: "wide", cell: ({ jobs }) => jobs.join(", ") },
  { title: "Accepted", class: "number", cell: ({ counts }) => count(counts.accepted) },
  { title: "Repeats", class: "number wide", cell: ({ counts }) => count(counts.replayed) },
  { title: "Refused", class: "number", cell: (endpoint) => <Refusals endpoint={endpoint} /> },
  {
    title: "Auth failures",
    class: "whole",
    cell: (endpoint) => <AuthFailures endpoint={endpoint} />,
  },
];

export function AuthFailures({ endpoint: { counts } }: { endpoint: Endpoint }) {
  const all = Object.entries(counts.unauthorized).sort(([, a], [, b]) => b - a);
  if (all.length === 0) return <span class="muted">none</span>;
  return (
    <>
      {all.map(([reason, times]) => (
        <span class="step-aside" key={reason}>
          <Badge tone="bad">{counted(times, "request")}:</Badge> {credentialFault(reason)}
          <Newest at={counts.unauthorized_newest[reason]} />
        </span>
      ))}
    </>
  );
}

function factsOf({ configured, name, preset, auth }: Endpoint): string {
  if (!configured) return "no longer configured";
  const facts = new Set([name, preset, auth === "none" ? "no authentication" : auth]);
  return [...facts].filter((each) => each !== null).join(", ");
}

export function Refusals({ endpoint: { path, counts } }: { endpoint: Endpoint }) {
  const refused = Object.values(counts.refused).reduce((sum, each) => sum + each, 0);
  if (refused === 0) return <span class="muted">0</span>;
  return (
    <a class="bad-text" href={linkTo(["refused"], { endpoint: path })}>
      {count(refused)}
    </a>
  );
}

/** Shows the time of the newest refusal. If it is long ago, the operator can conclude that the sender's problem is solved. */
function Newest({ at }: { at: string | undefined }) {
  if (at === undefined) return null;
  return (
    <span class="muted small">
      , newest <Ago at={at} />
    </span>
  );
}
