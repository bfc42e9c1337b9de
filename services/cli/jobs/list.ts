import { idsOfKey } from "../../../shared/job-call/job-ids.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { type JobGate, openJobs } from "../../../shared/queue/jobs.ts";
import { CALLBACKS_GATE, gateOf, isOfCallbacks } from "../../../shared/queue/queue-name.ts";
import { type Depth, openRegistry, sumOfDepths } from "../../../shared/queue/registry.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { duration, toIso, toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ListOptions = { configDir: string; json?: boolean };

type Job = Depth & { job: string; gate: JobGate; now: number };

/** `postern jobs list`: what each job that has a queue or a setting holds, over all origins, and what holds it up. */
export function listJobs(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition }) => {
    const [gates, depths] = await Promise.all([
      openJobs(partition).gates(),
      openRegistry(partition).depths(),
    ]);
    const now = systemClock();
    const listing = createListing<Job>(deps, options.json, {
      columns: [
        { heading: "JOB", width: 8 },
        { heading: "WAITING" },
        { heading: "DELAYED" },
        { heading: "ACTIVE" },
        { heading: "FAILED", tone: (count) => (count === "0" ? undefined : "bad") },
        { heading: "OLDEST" },
        { heading: "LIMITS", width: 14, cutTo: 10 },
        { heading: "STATE", cutTo: 20, tone: (state) => (state === "running" ? "good" : "attention") },
      ],
      toCells,
      toJson,
    });
    const names = [...gates.keys()].sort(byNumber);
    for (const job of names) {
      const gate = gates.get(job) as JobGate;
      const behind = depths.filter(({ queue }) => isBehind(job, queue));
      listing.add({ job, gate, now, ...sumOfDepths(behind) });
    }
    const paused = names.filter((job) => gates.get(job)?.pausedAt !== undefined).length;
    listing.end(`${names.length} ${names.length === 1 ? "job" : "jobs"}, ${paused} paused`);
    return EXIT.ok;
  });
}

function isBehind(gate: string, queue: string): boolean {
  return gate === CALLBACKS_GATE ? isOfCallbacks(queue) : gateOf(queue) === gate;
}

/** Jobs by their numbers, then all callbacks together, then those to each receiver. */
function byNumber(a: string, b: string): number {
  const [isCallback, isOther] = [a, b].map((gate) => gate.startsWith(CALLBACKS_GATE));
  if (isCallback || isOther) return Number(isCallback) - Number(isOther) || (a < b ? -1 : 1);
  const [ids, others] = [idsOfKey(a), idsOfKey(b)];
  return ids.serviceId - others.serviceId || ids.jobIndex - others.jobIndex;
}

function stateOf({ gate, now }: Job): "paused" | "throttled" | "running" {
  if (gate.pausedAt !== undefined) return "paused";
  return gate.throttledUntil !== undefined && gate.throttledUntil > now ? "throttled" : "running";
}

function toCells(job: Job): string[] {
  const { gate, waiting, delayed, active, failed, oldestSince, now } = job;
  const oldest = oldestSince === undefined ? "-" : duration(Math.max(0, now - oldestSince));
  const counts = [waiting, delayed, active, failed].map(String);
  const state = stateOf(job);
  const words = {
    running: "running",
    throttled: `throttled until ${toIsoSeconds(gate.throttledUntil ?? now)}: its runner asked to wait`,
    paused: pausedText(gate),
  };
  return [job.job, ...counts, oldest, limitsText(gate), words[state]];
}

/** Since when a job is paused, by whom and why. */
export function pausedText({ pausedAt, pausedBy, reason }: Partial<JobGate> = {}): string {
  const since = pausedAt === undefined ? "" : ` since ${toIsoSeconds(pausedAt)}`;
  return `paused${since} by ${pausedBy ?? "?"}: ${reason ?? "?"}`;
}

function limitsText({ concurrency, rate }: JobGate): string {
  const limits = [
    ...(concurrency === undefined ? [] : [`${concurrency} at once`]),
    ...(rate === undefined ? [] : [`${rate.max} in ${rate.periodMs} ms`]),
  ];
  return limits.length === 0 ? "-" : limits.join(", ");
}

/** For scripts. */
function toJson(job: Job) {
  const { gate, waiting, delayed, active, failed, oldestSince, now } = job;
  const state = stateOf(job);
  return {
    job: job.job,
    state,
    ...{ waiting, delayed, active, failed },
    oldest_age_ms: oldestSince === undefined ? null : Math.max(0, now - oldestSince),
    concurrency: gate.concurrency ?? null,
    rate: gate.rate === undefined ? null : { calls: gate.rate.max, period_ms: gate.rate.periodMs },
    ...(state === "throttled" && { throttled_until: toIso(gate.throttledUntil ?? now) }),
    ...(gate.pausedAt !== undefined && {
      paused: { at: toIso(gate.pausedAt), by: gate.pausedBy, reason: gate.reason },
    }),
  };
}
