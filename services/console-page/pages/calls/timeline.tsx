import type { ComponentChildren } from "preact";
import type { LifeStep } from "../../api/calls.ts";
import { shortened } from "../../ui/copy.tsx";
import { OnChain } from "../../ui/explorer.tsx";
import type { Tone } from "../../ui/notice.tsx";
import { bytes, counted } from "../../ui/number.ts";
import { duration, Time, weekday } from "../../ui/time.tsx";
import { problemWords } from "../../ui/why.tsx";
import { linkTo } from "../../url-fragment.ts";
import { wordOf } from "./state.tsx";

type StepText = { title: string; tone: Tone; text?: ComponentChildren };

type Props = {
  steps: readonly LifeStep[];
  network: string | undefined;
  /** Time of the next attempt, if the call waits for one. */
  dueAt: string | undefined;
};

/** Lists the steps of a call, the oldest first, with the time between them. */
export function Timeline({ steps, network, dueAt }: Props) {
  return (
    <ol class="timeline">
      {joinAttempts(steps).map(({ step, attempts, before }, i) => (
        <Step
          key={`${step.at} ${step.what} ${i}`}
          step={step}
          day={dayOf(step) === dayOf(before) ? undefined : dayOf(step)}
          last={attempts.at(-1)}
          words={attempts.length > 1 ? describeAttempts(attempts) : describeStep(step, { network })}
          since={before && Date.parse(step.at) - Date.parse(before.at)}
        />
      ))}
      {dueAt !== undefined && (
        <li class="step accent">
          <p class="step-head">
            <span class="step-title">Next attempt</span>
            <Time at={dueAt} mayBeAhead />
          </p>
        </li>
      )}
    </ol>
  );
}

type JoinedStep = {
  step: LifeStep;
  /** `step` and the attempts directly after it that got the same answer. They are shown as one step. */
  attempts: LifeStep[];
  /** The step before the first of these attempts. */
  before: LifeStep | undefined;
};

/** Joins consecutive attempts that got the same answer. */
function joinAttempts(steps: readonly LifeStep[]): JoinedStep[] {
  const all: JoinedStep[] = [];
  for (const [i, step] of steps.entries()) {
    const last = all.at(-1);
    if (last !== undefined && isSameAnswer(last.step, step)) last.attempts.push(step);
    else all.push({ step, attempts: [step], before: steps[i - 1] });
  }
  return all;
}

function isSameAnswer(a: LifeStep, b: LifeStep): boolean {
  const isAttempt = a.what === "attempt failed" && b.what === "attempt failed";
  return isAttempt && !b.missing && a.code === b.code && a.reason === b.reason && a.status === b.status;
}

/** Returns the day of a step in the chosen time zone. */
function dayOf(step: LifeStep | undefined): string | undefined {
  return step && weekday(Date.parse(step.at));
}

type StepProps = {
  step: LifeStep;
  /** The last of the attempts that are joined with the step, or the step itself. */
  last: LifeStep | undefined;
  words: StepText;
  /** Day of the step, if it differs from that of the previous step. */
  day: string | undefined;
  since: number | undefined;
};

function Step({ step, last, words: { title, tone, text }, day, since }: StepProps) {
  const { missing = 0 } = step;
  return (
    <>
      {missing > 0 && (
        <li class="step neutral">
          <p class="step-text muted">{counted(missing, "earlier attempt")}, no longer kept</p>
        </li>
      )}
      {day !== undefined && <li class="step-day muted small">{day}</li>}
      <li class={`step ${tone}`}>
        <p class="step-head">
          <span class="step-title">{title}</span>
          <span class="step-time">
            {since !== undefined && since > 0 && <span class="muted">{duration(since)} later</span>}{" "}
            <Time at={step.at} form="clock" />
            {last !== undefined && last !== step && (
              <>
                {" to "}
                <Time at={last.at} form={dayOf(last) === dayOf(step) ? "clock" : "short"} />
              </>
            )}
          </span>
        </p>
        {text !== undefined && <div class="step-text">{text}</div>}
      </li>
    </>
  );
}

function describeAttempts(attempts: readonly LifeStep[]): StepText {
  const [{ n: from, code = "", reason = "" } = {}] = attempts;
  return {
    title: `Attempts ${from} to ${attempts.at(-1)?.n} failed`,
    tone: "warn",
    text: (
      <>
        {problemWords(code, reason)} <code class="muted">{code}</code>
        <details class="attempts small muted">
          <summary>{attempts.length} attempts, same answer</summary>
          <ul>
            {attempts.map((attempt) => (
              <li key={attempt.n}>
                Attempt {attempt.n}, <Time at={attempt.at} form="clock" />: {attemptFacts(attempt)}
              </li>
            ))}
          </ul>
        </details>
      </>
    ),
  };
}

function attemptFacts({ status, ms, worker }: LifeStep): string {
  return [
    status === undefined ? undefined : `HTTP ${status}`,
    ms === undefined ? undefined : duration(ms),
    `by producer ${worker}`,
  ]
    .filter((fact) => fact !== undefined)
    .join(", ");
}

type Of = Pick<Props, "network">;

function describeStep(step: LifeStep, of: Of): StepText {
  const say = DESCRIPTIONS[step.what];
  return say === undefined ? { title: step.what, tone: "neutral" } : say(step, of);
}

const BY: Readonly<Record<string, string>> = {
  answer: "in the runner's answer",
  delivery: "sent by the runner",
};

type Tell = (step: LifeStep, of: Of) => StepText;

const DESCRIPTIONS: Readonly<Record<string, Tell>> = {
  created: () => ({ title: "Created", tone: "good", text: "A gateway verified the request." }),
  claimed: ({ facilitator }) => ({
    title: "Payment claimed",
    tone: "accent",
    text: `The facilitator ${facilitator} verified the payment. The whole call is on disk before any money moves.`,
  }),
  "settle sent again": ({ dispatches = 0 }) => ({
    title: "Settle request repeated",
    tone: "warn",
    text: `The settle request was sent ${dispatches} times in total.`,
  }),
  settled: ({ transaction = "", by, proven, reason }, { network }) => ({
    title: reason === undefined ? "Paid" : "Reported as paid",
    tone: reason === undefined ? "good" : "bad",
    text: (
      <>
        Transaction <OnChain kind="tx" text={transaction} network={network ?? ""} />,{" "}
        {by === "operator"
          ? "confirmed by an operator"
          : `reported by the ${by}, ${proven ? "confirmed on chain" : (reason ?? "not yet confirmed at the configured depth")}`}
      </>
    ),
  }),
  void: ({ reason }) => ({ title: "Not paid", tone: "neutral", text: reason }),
  "in review": ({ reason }) => ({ title: "In review", tone: "bad", text: reason }),
  queued: () => ({ title: "Queued", tone: "accent" }),
  "attempt failed": (step) => {
    const { n, code = "", reason = "" } = step;
    return {
      title: `Attempt ${n} failed`,
      tone: "warn",
      text: (
        <>
          {problemWords(code, reason)} <code class="muted">{code}</code>
          <span class="muted small step-aside">{attemptFacts(step)}</span>
        </>
      ),
    };
  },
  "attempt lost": ({ n }) => ({
    title: `Attempt ${n} has no known outcome`,
    tone: "warn",
    text: "Its producer stopped or lost the call before it recorded an outcome. The runner may have received the call.",
  }),
  failed: ({ code = "", reason = "" }) => ({
    title: "Failed",
    tone: "bad",
    text: (
      <>
        {problemWords(code, reason)} <code class="muted">{code}</code>
      </>
    ),
  }),
  replayed: ({ by, reason }) => ({ title: `Replayed by ${by}`, tone: "accent", text: reason }),
  "run early": ({ by, reason }) => ({ title: `Run early by ${by}`, tone: "accent", text: reason }),
  injected: ({ n, ms }) => ({
    title: "Injected into the runner",
    tone: "good",
    text: `${n === undefined ? "The" : `Attempt ${n}: the`} runner answered 2xx${ms === undefined ? "" : ` in ${duration(ms)}`}.`,
  }),
  discarded: ({ by = "an operator", reason }) => ({
    title: `Discarded by ${by}`,
    tone: "neutral",
    text: reason,
  }),
  "refund exported": (step) => ({ title: "Refund exported", tone: "warn", text: step.export }),
  refunded: ({ transaction = "" }, { network }) => ({
    title: "Refunded",
    tone: "neutral",
    text: <OnChain kind="tx" text={transaction} network={network ?? ""} />,
  }),
  "injected late": () => ({
    title: "Injected after its refund was exported",
    tone: "bad",
    text: "The runner reported that it has done the job.",
  }),
  progress: ({ json = "" }) => ({ title: "Progress", tone: "accent", text: <code>{json}</code> }),
  result: ({ status, content_type, bytes: size = 0, by = "" }) => ({
    title: "Result",
    tone: "good",
    text: `${status}, ${content_type ?? "no content type"}, ${bytes(size)}, ${BY[by] ?? by}`,
  }),
  "result too long": ({ status, by = "" }) => ({
    title: "Result too long to keep",
    tone: "warn",
    text: `${status}, ${BY[by] ?? by}`,
  }),
  "failure delivered": ({ status, title, detail }) => ({
    title: "The runner reported a failure",
    tone: "bad",
    text: [status, title, detail].filter((part) => part !== undefined).join("; "),
  }),
  callback: ({ ending = "", id = "", state = "", attempts = 0 }) => ({
    title: ending === "call.failed" ? "Callback: the call failed" : "Callback: the call ended",
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
    text: "The data from its sender was deleted.",
  }),
};
