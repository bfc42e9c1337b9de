import type { ComponentChildren } from "preact";
import { type Flow, memoryRatio, type Overview, type ProcessStatus } from "../../api/flow.ts";
import { useJobTitle } from "../../api/names.ts";
import { callsIn, notDoneIn } from "../../api/payments.ts";
import type { Answer } from "../../api/use-answer.ts";
import { paidText } from "../../ui/amount.ts";
import { Badge, type Tone } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { duration, Time, useNow } from "../../ui/time.tsx";
import { credentialFault, titleOf } from "../../ui/why.tsx";
import { linkTo } from "../../url-fragment.ts";
import { DISPUTED } from "../payments/state-words.ts";

type Matter = { tone: Tone; word: string; text: ComponentChildren };

/** Fraction of Redis' memory limit above which the page warns, because gateways will soon refuse new calls. */
const MEMORY_RATIO_MAX = 0.8;
const OLD_MS = 300_000;

type Props = {
  overview: Answer<Overview>;
  /** Counts of the calls of all jobs over time, and the endpoints that refuse requests. */
  flow: Answer<Flow>;
  /** Job by which the rest of the page is filtered. This list is always for all jobs. */
  job: string | undefined;
};

/**
 * Lists the problems that need an operator, the worst first, or says that nothing needs one. Its space stays free until
 * the first answers arrive, so that the page does not jump.
 */
export function Attention({ overview, flow, job }: Props) {
  const matters = overview.data === undefined ? [] : mattersOf(overview.data, flow.data);
  return (
    <section class="attention" aria-labelledby="attention">
      <h2 id="attention">Needs attention{job !== undefined && ", all jobs"}</h2>
      {matters.length === 0 && <NoMatter overview={overview} flow={flow} />}
      {matters.length > 0 && (
        <ul>
          {matters.map(({ tone, word, text }, i) => (
            <li key={`${word} ${i}`}>
              <Badge tone={tone}>{word}</Badge> <span>{text}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Says that nothing needs an operator. If an answer is missing or outdated, it says instead that the state is unknown. */
function NoMatter({ overview, flow }: Omit<Props, "job">) {
  const now = useNow(1000);
  if ([overview, flow].some(({ refused, isOld }) => refused !== undefined || isOld(now))) {
    return (
      <p>
        <Badge tone="bad">unknown</Badge> The current state cannot be read.
      </p>
    );
  }
  if (overview.data === undefined || flow.data === undefined) return <p class="muted">Loading</p>;
  if (notDoneIn(overview.data.payments.refunds).isAtLeast)
    return <p class="muted">Not all refunds are counted yet.</p>;
  return (
    <p>
      <Badge tone="good">OK</Badge> Nothing needs attention.
    </p>
  );
}

function mattersOf(overview: Overview, flow: Flow | undefined): Matter[] {
  const matters = [
    ...redisMatters(overview),
    ...producerMatters(overview),
    ...runnerMatters(overview),
    ...paymentMatters(overview),
    ...refundMatters(overview),
    ...callMatters(overview),
    ...refusalMatters(flow),
    ...jobMatters(overview),
    ...rolloutMatters(overview.processes),
    ...configMatters(overview.processes),
  ];
  return matters.sort((a, b) => Number(b.tone === "bad") - Number(a.tone === "bad"));
}

function redisMatters({ redis }: Overview): Matter[] {
  if (redis.problem !== null) return [{ tone: "bad", word: "not durable", text: redis.problem }];
  const ratio = memoryRatio(redis);
  const matters: Matter[] = [];
  if (redis.durability === "relaxed") {
    const text = "Durability is relaxed: accepted calls can be lost if Redis fails.";
    matters.push({ tone: "warn", word: "relaxed", text });
  }
  if (ratio !== undefined && ratio > MEMORY_RATIO_MAX) {
    const text = `Redis is ${Math.round(ratio * 100)} % full. When it is full, no call is accepted.`;
    matters.push({ tone: "bad", word: "memory", text });
  }
  return matters;
}

function paymentMatters({ payments: { review, disputed } }: Overview): Matter[] {
  const matters: Matter[] = [];
  if (review.count > 0) {
    const words = `${counted(review.count, "payment")} in review ${review.count === 1 ? "needs" : "need"} a decision`;
    const text = <a href={linkTo(["payments"])}>{words}</a>;
    matters.push({ tone: "bad", word: "payments", text });
  }
  if (disputed.count > 0) {
    const words = counted(disputed.count, "disputed payment");
    const text = (
      <>
        <a href={linkTo(["payments"], { state: DISPUTED })}>{words}</a>: the call was queued, but the chain
        does not show the payment. Check the facilitator, then acknowledge each.
      </>
    );
    matters.push({ tone: "bad", word: "payments", text });
  }
  return matters;
}

/**
 * Reports money that was paid for calls without an effect. Either a refund is due, or the call has failed and can still
 * be replayed.
 */
function refundMatters({ payments: { refunds } }: Overview): Matter[] {
  const { due, failed } = refunds;
  const link = (words: string) => <a href={linkTo(["payments"], { view: "refunds" })}>{words}</a>;
  const matters: Matter[] = [];
  if (callsIn(due) > 0) {
    const text = (
      <>
        {link("Refunds due")}: {paidText(due, !due.is_whole)}
      </>
    );
    matters.push({ tone: "bad", word: "refunds", text });
  }
  if (callsIn(failed) > 0) {
    const text = (
      <>
        {link("Paid calls failed")}: {paidText(failed, !failed.is_whole)}. Replay the calls or refund them.
      </>
    );
    matters.push({ tone: "bad", word: "paid", text });
  }
  return matters;
}

function jobMatters({ paused_jobs: paused }: Overview): Matter[] {
  if (paused.length === 0) return [];
  const text = <PausedJobs jobs={paused} />;
  return [{ tone: "warn", word: paused.length === 1 ? "job" : "jobs", text }];
}

function PausedJobs({ jobs }: { jobs: readonly string[] }) {
  const names = jobs.slice(0, 5).map(useJobTitle()).join(", ");
  return (
    <a href={linkTo(["jobs"])}>
      Paused: {names}
      {jobs.length > 5 && ` and ${jobs.length - 5} more`}
    </a>
  );
}

function producerMatters({ workers, queues }: Overview): Matter[] {
  const waitingMs = Math.max(0, ...queues.map((queue) => queue.waiting_age_ms ?? 0));
  const oldestMs = Math.max(0, ...queues.map((queue) => queue.oldest_age_ms ?? 0));
  if (workers.length === 0) {
    return [
      {
        tone: "bad",
        word: "no producer",
        text: "No producer is running: calls are accepted, but none reaches its runner.",
      },
    ];
  }
  if (waitingMs >= OLD_MS) {
    const text = (
      <>
        The oldest call has waited for {duration(waitingMs)}. Check the <a href={linkTo(["jobs"])}>jobs</a>:
        one may be paused, or its runner unreachable.
      </>
    );
    return [{ tone: "warn", word: "backlog", text }];
  }
  return oldestMs < OLD_MS ? [] : [delayedMatter(queues, oldestMs)];
}

/** Reports delayed calls: each waits until the time of its next attempt. */
function delayedMatter(queues: Overview["queues"], oldestMs: number): Matter {
  const delayed = queues.reduce((sum, queue) => sum + queue.delayed, 0);
  const until = Math.max(0, ...queues.map(({ delayed_until: at }) => (at === null ? 0 : Date.parse(at))));
  const words = `${counted(delayed, "delayed call")} ${delayed === 1 ? "waits for its" : "wait for their"} next attempt`;
  const text = (
    <>
      <a href={linkTo(["calls"], { state: "delayed" })}>{words}</a>, the oldest for {duration(oldestMs)}.
      {until > 0 && (
        <>
          {" "}
          The last one is due at <Time at={until} mayBeAhead />.
        </>
      )}{" "}
      Once their runner is repaired, run them from the page of their <a href={linkTo(["jobs"])}>job</a>.
    </>
  );
  return { tone: "warn", word: "delayed", text };
}

/** Text for the states of a runner that need an operator. Other states are not reported. */
const RUNNER_MATTERS: Readonly<Record<string, string>> = {
  away: "is unreachable",
  silent: "does not answer",
  failing: "answers with 5xx",
};

/**
 * Reports runners that do not work, and the consequence. While a runner is unreachable, its calls only wait. While it
 * does not answer or answers with 5xx, each call uses up one of its attempts.
 */
function runnerMatters({ runners }: Overview): Matter[] {
  return runners
    .filter(({ state }) => RUNNER_MATTERS[state] !== undefined)
    .map(({ name, state, since, or_earlier: orEarlier, unanswered, producers }) => {
      const text = (
        <>
          Runner “{name}” {RUNNER_MATTERS[state]}
          {unanswered > 0 &&
            unanswered < producers &&
            ` for ${unanswered} of ${counted(producers, "producer")}`}
          {since !== null && (
            <>
              {" "}
              since <Time at={since} />
              {orEarlier && " or earlier"}
            </>
          )}
        </>
      );
      return { tone: state === "away" ? "bad" : "warn", word: "runner", text };
    });
}

function callMatters({ queues }: Overview): Matter[] {
  const failed = queues.reduce((sum, queue) => sum + queue.failed, 0);
  if (failed === 0) return [];
  const words = `${counted(failed, "failed call")} to replay or discard`;
  const text = <a href={linkTo(["failed"])}>{words}</a>;
  return [{ tone: "bad", word: "failed", text }];
}

/**
 * Reports the endpoint that refused the most requests recently, for example because its sender has another secret than
 * the configured one.
 */
function refusalMatters(flow: Flow | undefined): Matter[] {
  const [most, ...others] = flow?.refusing ?? [];
  if (most === undefined) return [];
  const { endpoint, refused, requests, code, reason, newest_from } = most;
  const words = `${count(refused)} of ${counted(requests, "webhook")} were refused in the last 10 min`;
  const text = (
    <>
      <a href={linkTo(["refused"], endpoint === null ? {} : { endpoint })}>{words}</a>
      {endpoint === null ? " at paths that no endpoint has" : ` at ${endpoint}`}:{" "}
      {reason === null ? titleOf(code) : credentialFault(reason)}. The latest{" "}
      <WithinLast since={Date.parse(newest_from)} />.
      {others.length > 0 && ` Many also at ${counted(others.length, "other endpoint")}.`}
    </>
  );
  return [{ tone: "bad", word: "refused", text }];
}

/**
 * Writes how long ago an event was at most. Its exact time is not known, only the start of the interval in which it was
 * counted (`since`).
 */
function WithinLast({ since }: { since: number }) {
  const mins = Math.ceil((useNow() - since) / 60_000);
  return <>within the last {Math.max(1, mins)} min</>;
}

/** Reports processes that still use an earlier configuration, because the newest one in their files is invalid. */
function configMatters(processes: readonly ProcessStatus[]): Matter[] {
  return processes.flatMap(({ kind, host, pid, config_problem: problem }) =>
    problem === null
      ? []
      : [
          {
            tone: "bad" as const,
            word: "configuration",
            text: `${kind} ${host} ${pid}: its newest configuration is not in force: ${problem}`,
          },
        ],
  );
}

/**
 * Reports each kind of process of which some run another release or configuration than the others. This happens if an
 * operator has not updated or reloaded all of them.
 */
function rolloutMatters(processes: readonly ProcessStatus[]): Matter[] {
  const kinds = [...new Set(processes.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => {
    const own = processes.filter((each) => each.kind === kind);
    const releases = new Set(own.map(({ version }) => version)).size;
    const configs = new Set(own.map(({ config }) => config)).size;
    const texts = [
      ...(releases > 1 ? [`${kind}: ${releases} different releases are running.`] : []),
      ...(configs > 1 ? [`${kind}: ${configs} different configurations are running.`] : []),
    ];
    return texts.map((text): Matter => ({ tone: "warn", word: "rollout", text }));
  });
}
