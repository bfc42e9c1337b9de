import { useState } from "preact/hooks";
import { traceIdOf } from "../../../../shared/platform/text/trace-id.ts";
import type { CallLife } from "../../api/calls.ts";
import { useMayOperate } from "../../api/session.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { useBytes } from "../../api/use-bytes.ts";
import { BodyView } from "../../ui/body-view.tsx";
import { Card } from "../../ui/card.tsx";
import { Copyable, shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import { Facts } from "../../ui/facts.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { asSentence, Empty, Notice } from "../../ui/notice.tsx";
import { bytes, count, counted } from "../../ui/number.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Time } from "../../ui/time.tsx";
import { problemWords } from "../../ui/why.tsx";
import { linkTo, useRoute } from "../../url-fragment.ts";
import { type Act, ActDialog } from "../failed/act.tsx";
import { wordsOfPayment } from "../payments/state-words.ts";
import { ForgetDialog } from "./forget.tsx";
import { ReplayDialog } from "./replay.tsx";
import { RunNowDialog } from "./run-now.tsx";
import { CallState } from "./state.tsx";
import { Timeline } from "./timeline.tsx";

const EVERY_MS = 2000;

type Chosen = Act | "forget" | "replay delivered" | "run now";

/** Shows one call: its state, all steps since its creation, and the actions that an operator can take. */
export function CallPage() {
  const id = useRoute().path[1] ?? "";
  const answer = useAnswer("api/v1/calls/{call_id}", { call_id: id }, { everyMs: EVERY_MS });
  const { data, refused, reload } = answer;
  const [act, setAct] = useState<Chosen | undefined>();
  const close = () => {
    setAct(undefined);
    reload();
  };
  return (
    <>
      <PageHead title="Call" live={<Live answer={answer} />}>
        {data !== undefined && <Actions life={data} onAct={setAct} />}
      </PageHead>
      <div class="call-title">
        <Copyable text={id} />
        {data !== undefined && <CallState state={stateOf(data)} />}
      </div>
      {data === undefined && refused?.status === 404 ? (
        <Empty title="Call not found">
          {asSentence(refused.detail)} <a href={linkTo(["calls"])}>Search for another call</a>.
        </Empty>
      ) : (
        <StaleNotice answer={answer} />
      )}
      {data !== undefined && <Life key={data.call_id} life={data} />}
      {act === "forget" && <ForgetDialog id={id} onClose={close} />}
      {act === "replay delivered" && <ReplayDialog id={id} onClose={() => setAct(undefined)} />}
      {act === "run now" && <RunNowDialog id={id} onClose={close} />}
      {typeof act === "object" && <ActDialog act={act} onClose={close} />}
    </>
  );
}

/**
 * Returns the state of a call. For a queued call this is the state of its entry in the queue, such as waiting, delayed
 * or in flight. If the queue has lost the entry, the state is `missing`.
 */
function stateOf({ state, queue }: CallLife): string {
  return queue?.as ?? (state === "queued" ? "missing" : state);
}

const IN_FLIGHT = ["waiting", "active", "delayed", "held", "queued", "settling", "review"];

function Actions({ life, onAct }: { life: CallLife; onAct: (act: Chosen) => void }) {
  const mayOperate = useMayOperate();
  const { call_id, state, forgotten_at } = life;
  if (!mayOperate) return null;
  const begin = (action: Act["action"]) => () => onAct({ action, selection: { ids: [call_id] } });
  return (
    <div class="buttons">
      {forgotten_at === null && !IN_FLIGHT.includes(state) && (
        <button type="button" class="quiet" onClick={() => onAct("forget")}>
          Forget…
        </button>
      )}
      {stateOf(life) === "delayed" && (
        <button type="button" onClick={() => onAct("run now")}>
          Run now…
        </button>
      )}
      {state === "injected" && life.body_kept && (
        <button type="button" onClick={() => onAct("replay delivered")}>
          Replay as a new call…
        </button>
      )}
      {state === "failed" && (
        <>
          <button type="button" onClick={begin("discard")}>
            Discard…
          </button>
          <button type="button" class="primary" onClick={begin("replay")}>
            Replay…
          </button>
        </>
      )}
    </div>
  );
}

function Life({ life }: { life: CallLife }) {
  const { timeline, payment, queue, metadata } = life;
  return (
    <>
      <Summary life={life} />
      <div class="columns">
        <Card title="Timeline">
          <Timeline steps={timeline} network={payment?.terms.network} dueAt={queue?.due_at ?? undefined} />
        </Card>
        <div>
          <Card title="Details">
            <About life={life} />
          </Card>
          {metadata !== null && Object.keys(metadata).length > 0 && (
            <Card title="Metadata">
              <Facts
                facts={Object.entries(metadata).map(([name, value]) => [
                  name,
                  <span class="wrap">{value}</span>,
                ])}
              />
            </Card>
          )}
        </div>
      </div>
      <Body life={life} />
      <Result life={life} />
    </>
  );
}

/** Shows a notice if something is wrong with the call, such as a failure. */
function Summary({ life: { state, timeline } }: { life: CallLife }) {
  if (state === "failed") {
    const { code = "", reason = "" } = timeline.findLast(({ what }) => what === "failed") ?? {};
    return (
      <Notice tone="bad" title={problemWords(code, reason)}>
        Postern will not retry this call. Fix the cause and replay it, or discard it.
      </Notice>
    );
  }
  if (state === "review") {
    return (
      <Notice tone="bad" title="This call needs a decision">
        Its payment is in review. Open the payment below and decide whether it is paid.
      </Notice>
    );
  }
  return null;
}

function About({ life }: { life: CallLife }) {
  const { origin, service_id, job_id, content_type, sha256, traceparent, payment, changed_at } = life;
  const job = service_id === null ? undefined : `${service_id}/${job_id}`;
  return (
    <Facts
      facts={[
        ["State", <CallState state={stateOf(life)} />],
        ["State since", changed_at === null ? undefined : <Time at={changed_at} form="exact" />],
        ["Origin", origin],
        ["Endpoint", life.endpoint === null ? undefined : <span class="mono">{life.endpoint}</span>],
        ["Delivery", life.delivery_id === null ? undefined : <Copyable text={life.delivery_id} />],
        ["Replay of", life.replay_of && <a href={linkTo(["calls", life.replay_of])}>{life.replay_of}</a>],
        ["Job", job && <JobName job={job} />],
        ["Attempts", attemptsText(life)],
        ["Content type", content_type],
        ["Size", life.bytes === null ? undefined : bytes(life.bytes)],
        ["SHA-256", sha256 === null ? undefined : <Copyable text={sha256} shown={shortened(sha256)} />],
        [
          "Trace",
          traceparent === null ? undefined : (
            <Copyable text={traceIdOf(traceparent)} shown={shortened(traceIdOf(traceparent), 14)} />
          ),
        ],
        ...paymentFacts(payment),
      ]}
    />
  );
}

function attemptsText({ attempts, replays }: CallLife): string | undefined {
  if (attempts === null || attempts === 0) return undefined;
  return replays === 0 ? count(attempts) : `${count(attempts)} (${counted(replays, "replay")})`;
}

function paymentFacts(payment: CallLife["payment"]) {
  if (payment === null) return [];
  const { terms, settlement, call_id } = payment;
  const paidBy = <OnChain kind="address" text={terms.payer} network={terms.network} />;
  const transaction = settlement && (
    <OnChain kind="tx" text={settlement.transaction} network={terms.network} />
  );
  return [
    ["Payer", paidBy],
    ["Transaction", transaction],
    ["Payment", <a href={linkTo(["payments", call_id])}>{wordsOfPayment(payment).word}</a>],
  ] as const;
}

function Body({ life: { call_id, body_kept, bytes: size } }: { life: CallLife }) {
  const { body, refused, isBusy, load } = useBytes("api/v1/calls/{call_id}/body", { call_id });
  return (
    <Card title="Body">
      {!body_kept && <p class="muted">The body is not kept: the call has ended or was forgotten.</p>}
      {body_kept && body === undefined && (
        <button type="button" onClick={load} disabled={isBusy}>
          Show body{size === null ? "" : ` (${bytes(size)})`}
        </button>
      )}
      {body_kept && body !== undefined && <BodyView body={body} label="body" file={call_id} />}
      {refused !== undefined && (
        <Notice tone="warn" title="Body unavailable">
          {refused.detail}
        </Notice>
      )}
    </Card>
  );
}

function Result({ life: { call_id, result } }: { life: CallLife }) {
  const { body, refused, isBusy, load } = useBytes("api/v1/calls/{call_id}/result", { call_id });
  return (
    <Card title="Result">
      {result.reason !== null && <p class="muted">None: {asSentence(result.reason)}</p>}
      {result.reason === null && body === undefined && (
        <button type="button" onClick={load} disabled={isBusy}>
          Show result
        </button>
      )}
      {body !== undefined && <BodyView body={body} label="result" file={`${call_id}-result`} />}
      {refused !== undefined && (
        <Notice tone="warn" title="Result unavailable">
          {refused.detail}
        </Notice>
      )}
    </Card>
  );
}
