import type { ComponentChildren } from "preact";
import type { LifeStep } from "../../api/calls.ts";
import { linkTo } from "../../route.ts";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import type { Tone } from "../../ui/notice.tsx";
import { bytes, counted } from "../../ui/number.ts";
import { duration, Time } from "../../ui/time.tsx";
import { problemWords } from "../../ui/why.tsx";
import { wordOf } from "./state.tsx";

type Told = { title: string; tone: Tone; text?: ComponentChildren };

type Props = {
  steps: readonly LifeStep[];
  /** Failed attempts that are no longer kept. */
  attemptsBefore: number;
  network: string | undefined;
  /** When a call that waits for its next attempt is due. */
  dueAt: string | undefined;
};

/** What happened to a call, the oldest first, with the time between. */
export function Timeline({ steps, attemptsBefore, network, dueAt }: Props) {
  const firstAttempt = steps.findIndex(({ what }) => what === "attempt failed");
  return (
    <ol class="timeline">
      {steps.map((step, i) => (
        <Step
          key={`${step.at} ${step.what} ${i}`}
          step={step}
          day={dayOf(step) === dayOf(steps[i - 1]) ? undefined : dayOf(step)}
          told={tell(step, network)}
          since={i === 0 ? undefined : Date.parse(step.at) - Date.parse(steps[i - 1]?.at ?? step.at)}
          before={i === firstAttempt && attemptsBefore > 0 ? attemptsBefore : 0}
        />
      ))}
      {dueAt !== undefined && (
        <li class="step accent">
          <p class="step-head">
            <span class="step-title">Next attempt</span>
            <Time at={dueAt} />
          </p>
        </li>
      )}
    </ol>
  );
}

/** In the viewer's zone. */
function dayOf(step: LifeStep | undefined): string | undefined {
  return step && new Date(step.at).toDateString();
}

type StepProps = {
  step: LifeStep;
  told: Told;
  /** If it is another than that of the step before. */
  day: string | undefined;
  since: number | undefined;
  before: number;
};

function Step({ step, told: { title, tone, text }, day, since, before }: StepProps) {
  return (
    <>
      {before > 0 && (
        <li class="step neutral">
          <p class="step-text muted">{counted(before, "earlier failed attempt")}, no longer kept</p>
        </li>
      )}
      {day !== undefined && <li class="step-day muted small">{day}</li>}
      <li class={`step ${tone}`}>
        <p class="step-head">
          <span class="step-title">{title}</span>
          <span class="step-time">
            {since !== undefined && since > 0 && <span class="muted">{duration(since)} later</span>}{" "}
            <Time at={step.at} form="clock" />
          </span>
        </p>
        {text !== undefined && <div class="step-text">{text}</div>}
      </li>
    </>
  );
}

function tell(step: LifeStep, network: string | undefined): Told {
  const say = TELL[step.what];
  return say === undefined ? { title: step.what, tone: "neutral" } : say(step, network);
}

const BY: Readonly<Record<string, string>> = {
  answer: "with the runner's answer",
  delivery: "delivered by the runner",
};

type Tell = (step: LifeStep, network: string | undefined) => Told;

const TELL: Readonly<Record<string, Tell>> = {
  accepted: () => ({ title: "Accepted", tone: "good", text: "The call is on disk." }),
  claimed: ({ facilitator }) => ({
    title: "Payment claimed",
    tone: "accent",
    text: `Verified by ${facilitator}. The whole call is on disk before money moves.`,
  }),
  "settle sent again": ({ dispatches = 0 }) => ({
    title: "Settling tried again",
    tone: "warn",
    text: `The settle request was sent ${dispatches} times in all.`,
  }),
  settled: ({ transaction = "", by, proven }, network) => ({
    title: "Paid",
    tone: "good",
    text: (
      <>
        Transaction <OnChain kind="tx" text={transaction} network={network ?? ""} />, said by the {by}
        {proven ? ", shown by the chain" : ", not yet shown by the chain"}
      </>
    ),
  }),
  void: ({ reason }) => ({ title: "Not paid", tone: "neutral", text: reason }),
  "in review": ({ reason }) => ({ title: "In review", tone: "bad", text: reason }),
  queued: () => ({ title: "Queued", tone: "accent" }),
  "attempt failed": ({ n, code = "", reason = "", worker }) => ({
    title: `Attempt ${n} failed`,
    tone: "warn",
    text: (
      <>
        {problemWords(code, reason)} <code class="muted">{code}</code>
        <span class="muted small step-aside">by worker {worker}</span>
      </>
    ),
  }),
  failed: ({ code = "", reason = "" }) => ({
    title: "Failed",
    tone: "bad",
    text: (
      <>
        {problemWords(code, reason)} <code class="muted">{code}</code>
        <span class="muted small step-aside">It waits for an operator.</span>
      </>
    ),
  }),
  injected: () => ({ title: "Delivered to the runner", tone: "good", text: "The runner answered 2xx." }),
  discarded: () => ({ title: "Discarded by an operator", tone: "neutral" }),
  "refund exported": (step) => ({ title: "Refund exported", tone: "warn", text: step.export }),
  refunded: ({ transaction = "" }, network) => ({
    title: "Paid back",
    tone: "neutral",
    text: <OnChain kind="tx" text={transaction} network={network ?? ""} />,
  }),
  "injected late": () => ({
    title: "Delivered after its refund was exported",
    tone: "bad",
    text: "The runner says that it has done the job.",
  }),
  progress: ({ json = "" }) => ({ title: "Progress", tone: "accent", text: <code>{json}</code> }),
  result: ({ status, content_type, bytes: size = 0, by = "" }) => ({
    title: "Result",
    tone: "good",
    text: `${status}, ${content_type ?? "no content type"}, ${bytes(size)}, ${BY[by] ?? by}`,
  }),
  "result too long": ({ status, by = "" }) => ({
    title: "Result, longer than is kept",
    tone: "warn",
    text: `${status}, ${BY[by] ?? by}`,
  }),
  "failure delivered": ({ status, title, detail }) => ({
    title: "The runner says that it failed",
    tone: "bad",
    text: [status, title, detail].filter((part) => part !== undefined).join("; "),
  }),
  callback: ({ ending = "", id = "", state = "", attempts = 0 }) => ({
    title:
      ending === "call.failed" ? "Somebody is told that it failed" : "Somebody is told that it has ended",
    tone: state === "injected" ? "good" : state === "failed" ? "bad" : "accent",
    text: (
      <>
        Callback <a href={linkTo(["calls", id])}>{shortened(id)}</a> is {wordOf(state)}
        {attempts > 0 && `, ${counted(attempts, "attempt")}`}
      </>
    ),
  }),
  forgotten: () => ({
    title: "Forgotten by an operator",
    tone: "neutral",
    text: "What its sender has said was deleted.",
  }),
};
