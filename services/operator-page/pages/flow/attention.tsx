import type { ComponentChildren } from "preact";
import { type Flow, memoryRatio, type Overview, type ProcessStatus } from "../../api/flow.ts";
import { linkTo } from "../../route.ts";
import { Badge, type Tone } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { Ago, duration, Time } from "../../ui/time.tsx";

type Matter = { tone: Tone; word: string; text: ComponentChildren };

/** Above it Redis soon takes no more calls. */
const MEMORY_RATIO_MAX = 0.8;
const OLD_MS = 300_000;

/** What somebody should look at, the worst first; or that there is nothing. It has its place while nothing is known yet. */
export function Attention({ overview, flow }: { overview: Overview | undefined; flow: Flow | undefined }) {
  const matters = overview === undefined ? undefined : mattersOf(overview, flow);
  return (
    <section class="attention" aria-labelledby="attention">
      <h2 id="attention">
        What needs somebody
        {matters !== undefined && matters.length > 0 && `: ${counted(matters.length, "matter")}`}
      </h2>
      {matters === undefined && <p class="muted">Looking</p>}
      {matters?.length === 0 && (
        <p>
          <Badge tone="good">well</Badge> Nothing needs you.
        </p>
      )}
      {matters !== undefined && matters.length > 0 && (
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

function mattersOf(overview: Overview, flow: Flow | undefined): Matter[] {
  const matters = [
    ...ofRedis(overview),
    ...ofProducers(overview),
    ...ofRunners(overview),
    ...ofPayments(overview),
    ...ofCalls(overview),
    ...ofRefusals(flow),
    ...ofJobs(overview),
    ...ofRollouts(overview.processes),
  ];
  return matters.sort((a, b) => Number(b.tone === "bad") - Number(a.tone === "bad"));
}

function ofRedis({ redis }: Overview): Matter[] {
  if (redis.problem !== null) return [{ tone: "bad", word: "not durable", text: redis.problem }];
  const ratio = memoryRatio(redis);
  const matters: Matter[] = [];
  if (redis.durability === "relaxed") {
    const text = "Calls that were answered with 202 can be lost with Redis: durability is relaxed.";
    matters.push({ tone: "warn", word: "relaxed", text });
  }
  if (ratio !== undefined && ratio > MEMORY_RATIO_MAX) {
    const text = `Redis is ${Math.round(ratio * 100)} % full. Once it is, no call is taken.`;
    matters.push({ tone: "bad", word: "memory", text });
  }
  return matters;
}

function ofPayments({ payments: { review } }: Overview): Matter[] {
  if (review.count === 0) return [];
  const words = `${counted(review.count, "payment")} in review ${review.count === 1 ? "waits" : "wait"} for a decision`;
  const text = <a href={linkTo(["payments"])}>{words}</a>;
  return [{ tone: "bad", word: "payments", text }];
}

function ofJobs({ paused_jobs: paused }: Overview): Matter[] {
  if (paused.length === 0) return [];
  const names =
    paused.length > 5 ? `${paused.slice(0, 5).join(", ")} and ${paused.length - 5} more` : paused.join(", ");
  const text = <a href={linkTo(["endpoints"], { view: "jobs" })}>Paused: {names}</a>;
  return [{ tone: "warn", word: paused.length === 1 ? "job" : "jobs", text }];
}

function ofProducers({ workers, queues }: Overview): Matter[] {
  const ages = queues.flatMap(({ oldest_age_ms }) => oldest_age_ms ?? []);
  const oldest = Math.max(0, ...ages);
  if (workers.length === 0) {
    return [
      {
        tone: "bad",
        word: "no producer",
        text: "No producer is alive: calls are taken, and none is delivered.",
      },
    ];
  }
  if (oldest < OLD_MS) return [];
  const text = (
    <>
      A call has waited for {duration(oldest)}. Look at{" "}
      <a href={linkTo(["endpoints"], { view: "jobs" })}>the jobs</a>: one may be paused, or its runner away.
    </>
  );
  return [{ tone: "warn", word: "backlog", text }];
}

/** Calls wait for a runner that is away. One that answers late costs them attempts. */
function ofRunners({ runners }: Overview): Matter[] {
  return runners
    .filter(({ state }) => state === "away" || state === "silent")
    .map(({ name, state, since, unanswered, producers }) => {
      const text = (
        <>
          Runner “{name}” {state === "away" ? "cannot be reached" : "does not answer"}
          {unanswered < producers && ` for ${unanswered} of ${counted(producers, "producer")}`}
          {since !== null && (
            <>
              {" "}
              since <Time at={since} />
            </>
          )}
        </>
      );
      return { tone: state === "away" ? "bad" : "warn", word: "runner", text };
    });
}

function ofCalls({ queues }: Overview): Matter[] {
  const failed = queues.reduce((sum, queue) => sum + queue.failed, 0);
  if (failed === 0) return [];
  const words = `${counted(failed, "call")} failed and ${failed === 1 ? "waits" : "wait"} for somebody`;
  const text = <a href={linkTo(["failed"])}>{words}</a>;
  return [{ tone: "bad", word: "failed", text }];
}

const LATELY_MS = 600_000;
const REFUSED_MIN = 5;
const REFUSED_RATIO = 0.1;

/** If many webhooks were refused lately: a sender may have another secret than is configured. */
function ofRefusals(flow: Flow | undefined): Matter[] {
  const line = flow?.lines.find(({ origin }) => origin === "webhook");
  if (flow === undefined || line === undefined) return [];
  const steps = Math.max(1, Math.round(LATELY_MS / flow.step_ms));
  const lately = (values: readonly number[]) => values.slice(-steps).reduce((sum, each) => sum + each, 0);
  const refused = lately(line.refused);
  const all = refused + lately(line.accepted);
  if (refused < REFUSED_MIN || refused < REFUSED_RATIO * all) return [];
  const words = `${count(refused)} of ${counted(all, "webhook")} were refused in the last ${duration(LATELY_MS)}`;
  const newest = line.refused.findLastIndex((times) => times > 0);
  const text = (
    <>
      <a href={linkTo(["endpoints"])}>{words}</a>, the newest{" "}
      <Ago at={Date.parse(flow.from) + (newest + 1) * flow.step_ms} />
    </>
  );
  return [{ tone: "bad", word: "refused", text }];
}

/** Of which kinds the processes differ from one another: a rollout is half done, or was. */
function ofRollouts(processes: readonly ProcessStatus[]): Matter[] {
  const kinds = [...new Set(processes.map(({ kind }) => kind))];
  return kinds.flatMap((kind) => {
    const own = processes.filter((each) => each.kind === kind);
    const releases = new Set(own.map(({ version }) => version)).size;
    const configs = new Set(own.map(({ config }) => config)).size;
    const texts = [
      ...(releases > 1 ? [`${releases} releases of ${kind} run side by side.`] : []),
      ...(configs > 1 ? [`${configs} configurations of ${kind} run side by side.`] : []),
    ];
    return texts.map((text): Matter => ({ tone: "warn", word: "half a rollout", text }));
  });
}
