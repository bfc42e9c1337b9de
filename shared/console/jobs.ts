import { z } from "zod";
import { portsOfReceiver } from "../call/callback-target.ts";
import { idsOfKey, whyNoJobKey } from "../call/job-ids.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { toIso } from "../platform/time/iso.ts";
import { type GateAct, gateAct, type JobGate, openJobs } from "../queue/jobs.ts";
import type { OperatorDeps } from "../queue/operate.ts";
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
import { askAll, askReachable, tryOne } from "../redis/merge.ts";
import { fromCursor, next, type PageAsked, toCursor } from "./cursor.ts";
import { count, isoTime, OperatorAct, reached, reachOf } from "./view.ts";

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
    /** Number of partitions in which the pause holds, if there are several. It holds in the others before a call is taken from them. */
    paused_partitions: z.object({ of: count, paused: count }).optional(),
  })
  .meta({ id: "Job" });
export type JobView = z.infer<typeof JobView>;

export const JobChange = z
  .object({
    /** Whether anything was changed. */
    changed: z.boolean(),
    /** Whether a queue of this name exists. Without one no call has come yet, or the name is misspelt. */
    has_queue: z.boolean(),
    /** The job as it is now, under the name that it is stored under. Calls of partitions that were not reached are not counted. */
    job: JobView,
    ...reached,
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

type Deps = OperatorDeps & {
  /** Names in the configuration, by `<service id>/<job index>`. */
  jobNames: () => Record<string, string>;
};

type Jobs = ReturnType<typeof openJobs>;

/** Views of jobs: limits and pauses as partition 0 has them, and the sums over the queues of all partitions. */
function createViews(
  { partitions, clock, jobNames }: Pick<Deps, "partitions" | "clock" | "jobNames">,
  jobs: Jobs,
) {
  const registries = partitions.map(openRegistry);

  /** By gate: its queues, none if it has only a setting or a name. All callbacks together count only if they have a setting or are asked for. */
  async function known(asked?: string, askEach = askAll): Promise<Map<string, QueueName[]>> {
    const [names, named] = await Promise.all([askEach(registries, (each) => each.names()), jobs.named()]);
    const queues = [...new Set(names.flat())].sort();
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

  async function views(
    asked: readonly string[],
    queuesOf: ReadonlyMap<string, QueueName[]>,
    askEach = askAll,
  ) {
    const queues = [...new Set(asked.flatMap((gate) => queuesOf.get(gate) ?? []))];
    const [gates, read] = await Promise.all([
      jobs.gates(asked),
      askEach(registries, (each) => (partitions.all.length === 1 ? each : ownOf(each)).depths(queues)),
    ]);
    const paused = asked.filter((gate) => gates.get(gate)?.pausedAt !== undefined);
    const holding = partitions.all.length > 1 ? await jobs.holding(paused, askEach) : undefined;
    const depths = byQueue(read.flat());
    const now = clock();
    return asked.map((gate) => {
      const own = (queuesOf.get(gate) ?? []).flatMap((queue) => depths.get(queue) ?? []);
      const origins = [...new Set(own.map(({ queue }) => originOf(queue)))];
      const pausedIn = holding?.get(gate);
      return {
        ...toView(gate, gates.get(gate) ?? NO_GATE, { ...sumOfDepths(own), origins, now }),
        ...(pausedIn !== undefined && { paused_partitions: { of: partitions.all.length, paused: pausedIn } }),
      };
    });
  }

  /**
   * The job after a change, also one that has neither a queue nor a setting. A partition that cannot be read now counts as not reached,
   * because the answer must say that the change was made.
   */
  async function current(job: string, missed: readonly number[]): Promise<Omit<JobChange, "changed">> {
    const unreached = new Set(missed);
    const askEach: typeof askAll = async (each, ask) => {
      const reached = await askReachable(each, ask, unreached);
      for (const index of reached.unreached.keys()) unreached.add(index);
      return [...reached.answers.values()];
    };
    for (;;) {
      const before = unreached.size;
      const queuesOf = await known(job, askEach);
      const [view] = await views([job], queuesOf, askEach);
      if (view === undefined) throw new Error(`no view of ${job}`);
      // All readings are made again without a partition that one of them could not reach: its other counts must not be in the sums.
      if (unreached.size > before) continue;
      const has_queue = (queuesOf.get(job) ?? []).length > 0;
      return {
        has_queue,
        job: view,
        ...reachOf(
          partitions,
          [...unreached].sort((a, b) => a - b),
        ),
      };
    }
  }

  return { known, views, current };
}

/** The operations on jobs. Each act has a line in the audit. */
export function createJobsApi(deps: Deps): JobsApi {
  const { partitions, clock, log, by } = deps;
  const jobs = openJobs(partitions);
  const { known, views, current } = createViews(deps, jobs);
  const delayed = partitions.map(openDelayed);

  async function find(job: string): Promise<JobView | undefined> {
    const queuesOf = await known();
    return queuesOf.has(job) ? (await views([job], queuesOf))[0] : undefined;
  }

  async function change(action: "pause" | "resume", job: string, reason: string): Promise<JobChange> {
    const why = { at: clock(), by, reason };
    const { changed, unreached } = await jobs[action](job, why);
    if (changed) logAudited(log, gateAct(action, job, why));
    return { changed, ...(await current(job, unreached)) };
  }

  /** Runs the delayed calls of a job in one partition after another, with one line in the audit. */
  async function runDelayed(job: string, why: GateAct) {
    let calls = 0;
    const unreached: number[] = [];
    for (const index of delayed.all.keys()) {
      const outcome = await tryOne(delayed, index, (each) => each.ofJob(job, why, calls === 0));
      if (outcome.kind === "done") calls += outcome.result;
      else unreached.push(index);
    }
    return { calls, unreached };
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
      const { calls, unreached } = await runDelayed(job, why);
      if (calls > 0) logAudited(log, gateAct("run_delayed", job, why));
      return { ...(await current(job, unreached)), calls };
    },
  };
}

/** Reads only the queues that the partition has. To read those of the others there too would take as long. */
function ownOf({
  names,
  depths,
}: ReturnType<typeof openRegistry>): Pick<ReturnType<typeof openRegistry>, "depths"> {
  return {
    async depths(queues = []) {
      const own = new Set(await names());
      return depths(queues.filter((queue) => own.has(queue)));
    },
  };
}

type Row = QueueDepth & { queue: QueueName };

/** The rows of a queue: one of each partition. */
function byQueue(rows: readonly Row[]): Map<QueueName, Row[]> {
  const found = new Map<QueueName, Row[]>();
  for (const row of rows) {
    const others = found.get(row.queue);
    if (others === undefined) found.set(row.queue, [row]);
    else others.push(row);
  }
  return found;
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
