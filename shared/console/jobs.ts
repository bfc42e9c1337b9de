import { z } from "zod";
import { portsOfReceiver } from "../call/callback-target.ts";
import { idsOfKey, whyNoJobKey } from "../call/job-ids.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { toIso } from "../platform/time/iso.ts";
import { gateAct, type JobGate, openJobs } from "../queue/jobs.ts";
import type { OperateDeps } from "../queue/operate.ts";
import {
  CALLBACKS_GATE,
  gateOf,
  isOfCallbacks,
  originOf,
  type QueueName,
  receiverOfGate,
} from "../queue/queue-name.ts";
import { openRegistry, type QueueDepth, sumOfDepths } from "../queue/registry.ts";
import { openDelayed } from "../queue/run-delayed.ts";
import { logAudited } from "../redis/audit/audit.ts";
import { fromCursor, next, type PageAsked, toCursor } from "./cursor.ts";
import { count, isoTime, OperatorAct } from "./view.ts";

/**
 * A job that has a queue, a setting or a name in the configuration: what it holds, over all origins, and what holds it up. Beside the
 * jobs there are the receivers of callbacks, as `callback/receiver.example.com`, and `callback`, all of these together.
 */
export const JobView = z
  .object({
    job: z.string(),
    /** The ports of a receiver of callbacks. A name without a port stands for 443 and 80. */
    ports: z.array(count).optional(),
    state: z.enum(["running", "throttled", "paused"]),
    /** Those by which it has a queue. A queue is forgotten an hour after its last call. */
    origins: z.array(z.string()),
    waiting: count,
    delayed: count,
    /** Calls that wait until their endpoint is enabled. */
    held: count,
    active: count,
    failed: count,
    oldest_age_ms: count.nullable(),
    /** Calls in hand at once, over all producers. */
    concurrency: count.nullable(),
    /** Calls taken in each period, over all producers. */
    rate: z.object({ calls: count, period_ms: count }).nullable(),
    /** Until when its runner has asked for a pause. */
    throttled_until: isoTime.optional(),
    paused: OperatorAct.optional(),
  })
  .meta({ id: "Job" });
export type JobView = z.infer<typeof JobView>;

export const JobChange = z
  .object({
    /** Whether anything was changed. */
    changed: z.boolean(),
    /** Whether a queue of this name exists. Without one no call has come yet, or the name is misspelt. */
    has_queue: z.boolean(),
    /** The job as it is now, under the name that it is stored under. */
    job: JobView,
  })
  .meta({ id: "JobChange" });
export type JobChange = z.infer<typeof JobChange>;

export const DelayedRun = JobChange.omit({ changed: true })
  .extend({
    /** The number of delayed calls that wait now. */
    calls: count,
  })
  .meta({ id: "DelayedRun" });
export type DelayedRun = z.infer<typeof DelayedRun>;

/** Jobs by service id and job index, then `callback`, then receivers by name. */
export const JobPage = z.object({ jobs: z.array(JobView), next });
export type JobPage = z.infer<typeof JobPage>;

/** The jobs are named as `readGate` gives them. */
export type JobsApi = {
  page(asked: PageAsked): Promise<JobPage>;
  /** Throws `job.not_found` if the job has neither a queue nor a setting. */
  show(job: string): Promise<JobView>;
  /** No producer takes calls of the job any more. Unchanged if it is paused already. */
  pause(job: string, reason: string): Promise<JobChange>;
  /** The calls of the job are taken again. Unchanged if it is not paused. */
  resume(job: string, reason: string): Promise<JobChange>;
  /** The delayed calls of the job are taken before the time of their next attempt. */
  runDelayed(job: string, reason: string): Promise<DelayedRun>;
};

type Deps = OperateDeps & {
  /** Names in the configuration, by `<service id>/<job index>`. */
  jobNames: () => Record<string, string>;
};

/** What an operator sees of jobs, and does to them, with a line in the audit. */
export function createJobsApi({ partition, clock, log, by, jobNames }: Deps): JobsApi {
  const jobs = openJobs(partition);
  const registry = openRegistry(partition);
  const delayed = openDelayed(partition);

  /** By gate: its queues, none if it has only a setting or a name. All callbacks together count only if they have a setting or are asked for. */
  async function known(asked?: string): Promise<Map<string, QueueName[]>> {
    const [queues, named] = await Promise.all([registry.names(), jobs.named()]);
    const configured = Object.keys(jobNames()).filter((job) => whyNoJobKey(job) === undefined);
    const queuesOf = new Map<string, QueueName[]>([...configured, ...named].map((gate) => [gate, []]));
    for (const queue of queues) {
      const gate = gateOf(queue);
      const others = queuesOf.get(gate);
      if (others === undefined) queuesOf.set(gate, [queue]);
      else others.push(queue);
    }
    if (asked === CALLBACKS_GATE || queuesOf.has(CALLBACKS_GATE))
      queuesOf.set(CALLBACKS_GATE, queues.filter(isOfCallbacks));
    return queuesOf;
  }

  async function views(asked: readonly string[], queuesOf: ReadonlyMap<string, QueueName[]>) {
    const queues = [...new Set(asked.flatMap((gate) => queuesOf.get(gate) ?? []))];
    const [gates, read] = await Promise.all([jobs.gates(asked), registry.depths(queues)]);
    const depths = new Map(read.map((depth) => [depth.queue, depth]));
    const now = clock();
    return asked.map((gate) => {
      const own = (queuesOf.get(gate) ?? []).flatMap((queue) => depths.get(queue) ?? []);
      const origins = [...new Set(own.map(({ queue }) => originOf(queue)))];
      return toView(gate, gates.get(gate) ?? NO_GATE, { ...sumOfDepths(own), origins, now });
    });
  }

  async function find(job: string): Promise<JobView | undefined> {
    const queuesOf = await known();
    return queuesOf.has(job) ? (await views([job], queuesOf))[0] : undefined;
  }

  /** The job as it is now, also one that has neither a queue nor a setting. */
  async function current(job: string): Promise<Omit<JobChange, "changed">> {
    const queuesOf = await known(job);
    const [view] = await views([job], queuesOf);
    if (view === undefined) throw new Error(`no view of ${job}`);
    return { has_queue: (queuesOf.get(job) ?? []).length > 0, job: view };
  }

  async function change(action: "pause" | "resume", job: string, reason: string): Promise<JobChange> {
    const why = { at: clock(), by, reason };
    const changed = await jobs[action](job, why);
    if (changed) logAudited(log, gateAct(action, job, why));
    return { changed, ...(await current(job)) };
  }

  return {
    async page({ limit, cursor }) {
      const after = fromCursor(z.string(), cursor);
      const queuesOf = await known();
      const rest = [...queuesOf.keys()]
        .filter((gate) => after === undefined || byNumber(gate, after) > 0)
        .sort(byNumber);
      const shown = rest.slice(0, limit);
      const last = rest.length > limit ? shown.at(-1) : undefined;
      return { jobs: await views(shown, queuesOf), next: toCursor(last) };
    },

    async show(job) {
      const found = await find(job);
      if (found === undefined)
        throw AppError.public("job.not_found", `job ${job} has no queue and no settings`);
      return found;
    },

    pause: (job, reason) => change("pause", job, reason),
    resume: (job, reason) => change("resume", job, reason),

    async runDelayed(job, reason) {
      const why = { at: clock(), by, reason };
      const calls = await delayed.ofJob(job, why);
      if (calls > 0) logAudited(log, gateAct("run_delayed", job, why));
      return { ...(await current(job)), calls };
    },
  };
}

/** Jobs by their numbers, then all callbacks together, then those to each receiver. */
function byNumber(a: string, b: string): number {
  if (a === b) return 0;
  const [isCallback, isOther] = [a, b].map((gate) => gate.startsWith(CALLBACKS_GATE));
  if (isCallback || isOther) return Number(isCallback) - Number(isOther) || (a < b ? -1 : 1);
  const [ids, others] = [idsOfKey(a), idsOfKey(b)];
  return ids.serviceId - others.serviceId || ids.jobIndex - others.jobIndex;
}

/** Of a job that has neither a queue nor a setting. */
const NO_GATE: JobGate = {
  pausedAt: undefined,
  pausedBy: undefined,
  reason: undefined,
  throttledUntil: undefined,
};

type Holds = QueueDepth & { origins: string[]; now: number };

function toView(job: string, gate: JobGate, holds: Holds): JobView {
  const { origins, waiting, delayed, held, active, failed, oldestSince, now } = holds;
  const { concurrency, rate, pausedAt, pausedBy, reason, throttledUntil } = gate;
  const state = stateOf(gate, now);
  const receiver = receiverOfGate(job);
  return {
    job,
    ...(receiver !== undefined && { ports: [...portsOfReceiver(receiver)] }),
    state,
    ...{ origins, waiting, delayed, held, active, failed },
    oldest_age_ms: oldestSince === undefined ? null : Math.max(0, now - oldestSince),
    concurrency: concurrency ?? null,
    rate: rate === undefined ? null : { calls: rate.max, period_ms: rate.periodMs },
    ...(state === "throttled" && { throttled_until: toIso(throttledUntil ?? now) }),
    ...(pausedAt !== undefined && {
      paused: { at: toIso(pausedAt), by: pausedBy ?? "?", reason: reason ?? "?" },
    }),
  };
}

function stateOf({ pausedAt, throttledUntil }: JobGate, now: number): JobView["state"] {
  if (pausedAt !== undefined) return "paused";
  return throttledUntil !== undefined && throttledUntil > now ? "throttled" : "running";
}
