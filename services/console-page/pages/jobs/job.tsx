import { useMemo, useState } from "preact/hooks";
import { shellQuote } from "../../../../shared/platform/text/shell-quote.ts";
import { useJobTitle } from "../../api/names.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { Copyable } from "../../ui/copy.tsx";
import { Facts } from "../../ui/facts.tsx";
import { joinAnswers, Live, StaleNotice } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { SpanChoice, useSpan } from "../../ui/span.tsx";
import { duration } from "../../ui/time.tsx";
import { linkTo, useRoute } from "../../url-fragment.ts";
import { LatestCalls } from "../calls/latest.tsx";
import { Charts } from "../overview/charts.tsx";
import { toPoints } from "../overview/points.ts";
import { buyersText } from "../payments/prices.tsx";
import { JobState, limitsOf } from "./jobs.tsx";
import { PauseDialog } from "./pause.tsx";
import { RunDelayedDialog } from "./run-delayed.tsx";

const NO_MARKERS = [] as const;

/** Shows one job: its settings, the outcomes of its calls over time, and its newest calls. */
export function JobPage() {
  const job = useRoute().path.slice(1).join("/");
  const titleOf = useJobTitle();
  const span = useSpan();
  const answer = useAnswer("api/v1/jobs/{job+}", { job }, { everyMs: 3000 });
  const flow = useAnswer("api/v1/flow", { span, job }, { everyMs: span === "1h" ? 10_000 : 60_000 });
  const points = useMemo(() => flow.data && toPoints(flow.data, flow.data.lines), [flow.data]);
  const [act, setAct] = useState<"pause" | "run delayed" | undefined>();
  const mayOperate = useMayOperate();
  const { data, refused, reload } = answer;
  const close = () => {
    setAct(undefined);
    reload();
  };
  return (
    <>
      <PageHead title={`Job ${titleOf(job)}`} live={<Live answer={joinAnswers([answer, flow])} />}>
        {mayOperate && data !== undefined && data.delayed > 0 && (
          <button type="button" onClick={() => setAct("run delayed")}>
            Run delayed calls…
          </button>
        )}
        {mayOperate && data !== undefined && (
          <button type="button" onClick={() => setAct("pause")}>
            {data.paused === undefined ? "Pause…" : "Resume…"}
          </button>
        )}
        <SpanChoice />
      </PageHead>
      {data === undefined && refused?.status === 404 ? (
        <Empty title="Job not found">{refused.detail}</Empty>
      ) : (
        <StaleNotice answer={answer} />
      )}
      <Charts {...{ points, job, origin: "", span, markers: NO_MARKERS }} />
      <div class="columns">
        <LatestCalls search={{ job }} />
        <div>
          {data !== undefined && (
            <Card title="Queue and settings">
              <Facts
                facts={[
                  ["State", <JobState job={data} />],
                  ["Origins", data.origins.join(", ")],
                  ["Waiting", count(data.waiting)],
                  ["Delayed", count(data.delayed)],
                  ["Held", count(data.held)],
                  ["In flight", count(data.active)],
                  ["Failed", <a href={linkTo(["failed"], { job })}>{count(data.failed)}</a>],
                  ["Oldest waiting", data.oldest_age_ms === null ? "" : duration(data.oldest_age_ms)],
                  ["Limits", limitsOf(data)],
                ]}
              />
            </Card>
          )}
          <HowToBuy job={job} />
        </div>
      </div>
      {act === "pause" && data !== undefined && <PauseDialog job={data} onClose={close} />}
      {act === "run delayed" && data !== undefined && <RunDelayedDialog job={data} onClose={close} />}
    </>
  );
}

/** Shows how to buy the job, if it is for sale. */
function HowToBuy({ job }: { job: string }) {
  const { data } = useAnswer("api/v1/prices", {});
  const sold = data?.jobs.find((each) => each.job === job);
  if (sold === undefined || sold.invocation_mode === "disabled") return null;
  const gateway = data?.gateway_url?.replace(/\/+$/, "");
  return (
    <Card title="Sold for payment">
      <Facts
        facts={[
          ["Name", sold.name],
          ["Description", sold.description],
          ["Buyers", buyersText(sold)],
          ["Price", <a href={linkTo(["payments"], { view: "prices" })}>see prices</a>],
          [
            "Try it",
            gateway && <Copyable text={`curl -i -X POST ${shellQuote(`${gateway}/x402/jobs/${job}`)}`} />,
          ],
        ]}
      />
    </Card>
  );
}
