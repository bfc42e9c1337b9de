import { adviceFor } from "../../../../shared/senders/advice.ts";
import type { Endpoint } from "../../api/endpoints.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { linkTo } from "../../route.ts";
import { Card } from "../../ui/card.tsx";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Badge, Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";

/** Every endpoint, what came to it in a day, and why senders were turned away. */
export function EndpointsView() {
  const answer = useAnswer<{ endpoints: Endpoint[] }>("api/v1/endpoints", {}, { everyMs: 10_000 });
  const endpoints = answer.data?.endpoints;
  return (
    <>
      <WhyNot answer={answer} />
      <Card title="Webhook endpoints, last 24 hours" tools={<Live answer={answer} />} isBare>
        {endpoints?.length === 0 && (
          <Empty title="No endpoints configured">
            Add one to <code>webhooks.toml</code> (see <code>docs/webhooks.md</code>), then start{" "}
            <code>postern webhooks</code>.
          </Empty>
        )}
        {endpoints !== undefined && endpoints.length > 0 && <Table endpoints={endpoints} />}
      </Card>
    </>
  );
}

function Table({ endpoints }: { endpoints: readonly Endpoint[] }) {
  return (
    <div class="table-box">
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">Endpoint</th>
            <th scope="col" class="wide">
              Jobs
            </th>
            <th scope="col" class="number">
              Accepted
            </th>
            <th scope="col" class="number wide">
              Repeats
            </th>
            <th scope="col" class="number">
              Refused
            </th>
            <th scope="col">Auth failures</th>
          </tr>
        </thead>
        <tbody>
          {endpoints.map((endpoint) => (
            <Row key={endpoint.path} endpoint={endpoint} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ endpoint }: { endpoint: Endpoint }) {
  const { path, configured, name, preset, auth, jobs, counts } = endpoint;
  const refused = Object.values(counts.refused).reduce((sum, each) => sum + each, 0);
  const unauthorized = Object.entries(counts.unauthorized).sort(([, a], [, b]) => b - a);
  const facts = configured
    ? [name, preset === name ? null : preset, auth === "none" ? "no authentication" : auth]
    : ["no longer configured"];
  return (
    <tr>
      <td>
        <span class="mono wrap">{path}</span>
        <span class="step-aside small muted wrap">{facts.filter((each) => each !== null).join(", ")}</span>
      </td>
      <td class="wide">{jobs.join(", ")}</td>
      <td class="number" data-label="Accepted">
        {count(counts.accepted)}
      </td>
      <td class="number wide">{count(counts.replayed)}</td>
      <td class="number" data-label="Refused">
        {refused === 0 ? (
          <span class="muted">0</span>
        ) : (
          <a class="bad-text" href={linkTo(["endpoints"], { view: "rejected", path })}>
            {count(refused)}
          </a>
        )}
      </td>
      <td class="whole" data-label="Auth failures">
        {unauthorized.length === 0 && <span class="muted">none</span>}
        {unauthorized.map(([reason, times]) => (
          <span class="step-aside" key={reason}>
            <Badge tone="bad">{counted(times, "request")}</Badge> {saidOf(reason)}
            <Newest at={counts.unauthorized_newest[reason]} />
          </span>
        ))}
      </td>
    </tr>
  );
}

function saidOf(reason: string): string {
  return adviceFor({ code: "webhook.credential_rejected", reason, credential: null })?.says ?? reason;
}

/** Since when no more have come: whether a sender is mended. */
function Newest({ at }: { at: string | undefined }) {
  if (at === undefined) return null;
  return (
    <span class="muted small">
      , newest <Ago at={at} />
    </span>
  );
}
