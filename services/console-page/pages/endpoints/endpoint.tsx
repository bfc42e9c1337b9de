import { useMemo, useState } from "preact/hooks";
import { shellQuote } from "../../../../shared/platform/text/shell-quote.ts";
import type { EndpointDetail } from "../../api/endpoints.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { Chart, type Line } from "../../ui/chart.tsx";
import { Copyable } from "../../ui/copy.tsx";
import { type Fact, Facts } from "../../ui/facts.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Empty, Notice } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { linkTo, useRoute } from "../../url-fragment.ts";
import { LatestCalls } from "../calls/latest.tsx";
import { AuthFailures, Refusals } from "./endpoints.tsx";
import { EnableDialog, EndpointState, StopDialog } from "./state.tsx";
import { TestDialog } from "./test.tsx";

/** Shows one endpoint: its settings without secrets, its requests over time, and its newest calls. */
export function EndpointPage() {
  const path = useRoute().path[1] ?? "";
  const span = useSpan();
  const answer = useAnswer("api/v1/endpoint", { path, span }, { everyMs: 5000 });
  const [asked, setAsked] = useState<"state" | "test" | undefined>();
  const mayOperate = useMayOperate();
  const { data, refused, reload } = answer;
  const close = () => {
    setAsked(undefined);
    reload();
  };
  const Ask = data?.state === "enabled" ? StopDialog : EnableDialog;
  return (
    <>
      <PageHead title={path} live={<Live answer={answer} />}>
        {mayOperate && data !== undefined && (
          <>
            {data.configured && (
              <button type="button" onClick={() => setAsked("test")}>
                Send test…
              </button>
            )}
            <button type="button" onClick={() => setAsked("state")}>
              {data.state === "enabled" ? "Disable or hold…" : "Enable…"}
            </button>
          </>
        )}
        <SpanChoice />
      </PageHead>
      {data === undefined && refused?.status === 404 ? (
        <Empty title="Endpoint not found">{refused.detail}</Empty>
      ) : (
        <StaleNotice answer={answer} />
      )}
      {data !== undefined && <Shown endpoint={data} />}
      {asked === "state" && data !== undefined && <Ask endpoint={data} onClose={close} />}
      {asked === "test" && <TestDialog path={path} onClose={close} />}
    </>
  );
}

function Shown({ endpoint }: { endpoint: EndpointDetail }) {
  const { path, state, configured } = endpoint;
  return (
    <>
      {state !== "enabled" && (
        <Notice
          tone="warn"
          title={
            state === "held"
              ? "New webhooks are accepted, but not delivered"
              : "Webhooks are refused with 503"
          }
        >
          <EndpointState endpoint={endpoint} />
        </Notice>
      )}
      {!configured && (
        <Notice tone="warn" title="This endpoint is no longer in webhooks.toml">
          Its calls and counts are still listed.
        </Notice>
      )}
      <Requests endpoint={endpoint} />
      <div class="columns">
        <LatestCalls search={{ endpoint: path }} />
        <div>
          <Card title="Settings">
            <Facts facts={settingsOf(endpoint)} />
          </Card>
          {endpoint.url !== null && <TryIt endpoint={endpoint} url={endpoint.url} />}
        </div>
      </div>
    </>
  );
}

/** Draws the requests over time. Leaves out the last interval, which has only begun and would look as if requests had stopped. */
function Requests({ endpoint }: { endpoint: EndpointDetail }) {
  const { flow, counts } = endpoint;
  const { times, lines } = useMemo(() => {
    const whole = (values: readonly number[]): (number | null)[] =>
      values.slice(0, -1).map((value, i) => (flow.missing[i] === true ? null : value));
    const drawn: Line[] = [
      { name: "accepted", values: whole(flow.accepted), colour: "accent", isFilled: true },
      { name: "repeats", values: whole(flow.replayed), colour: "muted" },
      { name: "refused", values: whole(flow.refused), colour: "bad" },
    ];
    const from = Date.parse(flow.from);
    return { times: flow.accepted.slice(0, -1).map((_, i) => from + i * flow.step_ms), lines: drawn };
  }, [flow]);
  return (
    <Card title={`Requests in each ${flow.step_ms === 60_000 ? "minute" : "5 minutes"}`}>
      <Chart
        label="Requests: accepted, repeats, refused"
        times={times}
        lines={lines}
        format={count}
        isWhole
      />
      <Facts
        facts={[
          ["Last 24 hours", `${count(counts.accepted)} accepted, ${count(counts.replayed)} repeats`],
          ["Refused", <Refusals endpoint={endpoint} />],
          ["Auth failures", <AuthFailures endpoint={endpoint} />],
        ]}
      />
    </Card>
  );
}

function settingsOf({ name, preset, auth, settings, url }: EndpointDetail): Fact[] {
  const facts: Fact[] = [
    ["name", name],
    ["preset", preset],
    ["auth", auth],
    ["URL", url && <Copyable text={url} />],
  ];
  return [...facts, ...Object.entries(settings).map(([key, value]): Fact => [key, <code>{value}</code>])];
}

const HEADERS: Readonly<Record<string, string>> = {
  bearer: `-H "Authorization: Bearer $SECRET" `,
  none: "",
};

/**
 * Shows commands that send a test webhook: curl for an endpoint that does not require signatures, and `postern send`
 * for any endpoint. The console does not have the endpoint's secret, so it cannot sign a webhook. The operator must run
 * the command on a machine that has the secret.
 */
function TryIt({ endpoint: { path, auth }, url }: { endpoint: EndpointDetail; url: string }) {
  const header = HEADERS[auth ?? ""];
  return (
    <Card title="Try it">
      {header !== undefined && <Copyable text={`curl -i ${header}-d '{}' ${shellQuote(url)}`} />}
      <p>
        <Copyable text={`postern send ${shellQuote(path)} --dry-run`} />
      </p>
      <p class="muted">
        <code>postern send</code> prints a signed <code>curl</code> line. Run it where the endpoint's secret
        is configured. See <a href={linkTo(["refused"], { endpoint: path })}>why requests were refused</a>.
      </p>
    </Card>
  );
}
