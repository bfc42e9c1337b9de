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
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { count, isoTime, OperatorAct, reached, reachOf } from "./view.ts";

/**
 * A job that has a queue, a stored setting or a name in the configuration. Shows its counts over all origins, its
 * limits and its pause. Receivers of callbacks are listed like jobs, under names such as
 * `callback/receiver.example.com`. The row `callback` concerns all receivers together.
 */
export const JobView = z
  .object({
    job: z.string(),
    /** Ports of a receiver of callbacks: 443 and 80, unless its name includes a port. */
    ports: z.array(count).optional(),
    state: z.enum(["running", "throttled", "paused"]),
    /** Origins of the job's queues. A queue is removed an hour after its last call. */
    origins: z.array(z.string()),
    waiting: count,
    delayed: count,
    /** Calls that wait until an operator enables their endpoint. */
    held: count,
    active: count,
    failed: count,
    oldest_age_ms: count.nullable(),
    /** Limit on calls in flight, over all producers. */
    concurrency: count.nullable(),
    /** Limit on calls in each period, over all producers. */
    rate: z.object({ calls: count, period_ms: count }).nullable(),
    /** Time until which no calls are taken, because the job's runner has requested a pause. */
    throttled_until: isoTime.optional(),
    paused: OperatorAct.optional(),
    /**
     * Number of all partitions (`of`), and of those in which the pause is in force (`paused`). In the other partitions,
     * a producer first applies the pause and only then takes calls. Absent if there is only one partition.
     */
    paused_partitions: z.object({ of: count, paused: count }).optional(),
  })
  .meta({ id: "Job" });
export type JobView = z.infer<typeof JobView>;

export const JobChange = z
  .object({
    /** Whether the request changed anything. */
    changed: z.boolean(),
    /** Whether the job has a queue. If not, no call has arrived recently, or the name is misspelt. */
    has_queue: z.boolean(),
    /** The job after the change. Calls of unavailable partitions are not counted. */
    job: JobView,
    ...reached,
  })
  .meta({ id: "JobChange" });
export type JobChange = z.infer<typeof JobChange>;

export const DelayedRun = JobChange.omit({ changed: true })
  .extend({
    /** Number of calls that were delayed and now wait for a producer. */
    calls: count,
  })
  .meta({ id: "DelayedRun" });
export type DelayedRun = z.infer<typeof DelayedRun>;

/** A page of jobs, ordered by service id and job index; then `callback`, then receivers by name. */
export const JobPage = z.object({ jobs: z.array(JobView), next });
export type JobPage = z.infer<typeof JobPage>;

/** Operations on jobs. The name of a job has the form that `readGate` returns. */
export type JobsApi = {
  page(asked: PageRequest): Promise<JobPage>;
  /** Shows a job. Throws `job.not_found` if the job has neither a queue nor a setting. */
  show(job: string): Promise<JobView>;
  /** Pauses a job: producers no longer take its calls. Changes nothing if it is already paused. */
  pause(job: string, reason: string): Promise<JobChange>;
  /** Ends the pause of a job. Changes nothing if it is not paused. */
  resume(job: string, reason: string): Promise<JobChange>;
  /** Runs the delayed calls of the job before the time of their next attempt. */
  runDelayed(job: string, reason: string): Promise<DelayedRun>;
};

type Deps = OperatorDeps & {
  /** Returns the names in the configuration, by `<service id>/<job index>`. */
  jobNames: () => Record<string, string>;
};

type Jobs = ReturnType<typeof openJobs>;

/**
 * Creates the functions that build views of jobs. Limits and pauses are read from partition 0, and counts are summed
 * over all partitions.
 */
function createViews(
  { partitions, clock, jobNames }: Pick<Deps, "partitions" | "clock" | "jobNames">,
  jobs: Jobs,
) {
  const registries = partitions.map(openRegistry);

  /**
   * Returns the queues of each gate. A gate is a job or a receiver of callbacks. It has no queues if only a setting for
   * it is stored, or only its name is configured. Includes `callback` only if it has a setting or is requested.
   */
  async function queuesByGate(asked?: string, askEach = askAll): Promise<Map<string, QueueName[]>> {
    const [names, named] = await Promise.all([askEach(registries, (each) => each.names()), jobs.gateNames()]);
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
      askEach(registries, (each) =>
        (partitions.all.length === 1 ? each : readOwnQueues(each)).depths(queues),
      ),
    ]);
    const paused = asked.filter((gate) => gates.get(gate)?.pausedAt !== undefined);
    const holding = partitions.all.length > 1 ? await jobs.countPausedPartitions(paused, askEach) : undefined;
    const depths = groupByQueue(read.flat());
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
   * Returns the view of a job after a change, even if the job has neither a queue nor a setting. A partition that
   * cannot be read now is listed as unreached. An error would hide that the change was made.
   */
  async function currentJob(job: string, missed: readonly number[]): Promise<Omit<JobChange, "changed">> {
    const unreached = new Set(missed);
    const askEach: typeof askAll = async (each, ask) => {
      const reached = await askReachable(each, ask, unreached);
      for (const index of reached.unreached.keys()) unreached.add(index);
      return [...reached.answers.values()];
    };
    for (;;) {
      const before = unreached.size;
      const queuesOf = await queuesByGate(job, askEach);
      const [view] = await views([job], queuesOf, askEach);
      if (view === undefined) throw new Error(`no view of ${job}`);
      // If a partition becomes unreachable during these reads, all of them are repeated without it. Otherwise the sums
      // would include only the counts that were read before.
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

  return { queuesByGate, views, currentJob };
}

/** Implements the operations on jobs. Each act writes a line in the audit log. */
export function createJobsApi(deps: Deps): JobsApi {
  const { partitions, clock, log, by } = deps;
  const jobs = openJobs(partitions);
  const { queuesByGate, views, currentJob } = createViews(deps, jobs);
  const delayed = partitions.map(openDelayed);

  async function find(job: string): Promise<JobView | undefined> {
    const queuesOf = await queuesByGate();
    return queuesOf.has(job) ? (await views([job], queuesOf))[0] : undefined;
  }

  async function change(action: "pause" | "resume", job: string, reason: string): Promise<JobChange> {
    const why = { at: clock(), by, reason };
    const { changed, unreached } = await jobs[action](job, why);
    if (changed) logAudited(log, gateAct(action, job, why));
    return { changed, ...(await currentJob(job, unreached)) };
  }

  /**
   * Runs the delayed calls of a job in each partition in turn. Only the first partition that has such calls writes a
   * line in the audit log.
   */
  async function runDelayed(job: string, why: GateAct) {
    let calls = 0;
    const unreached: number[] = [];
    for (const index of delayed.all.keys()) {
      const outcome = await tryOne(delayed, index, (each) => each.runAllOf(job, why, calls === 0));
      if (outcome.kind === "done") calls += outcome.result;
      else unreached.push(index);
    }
    return { calls, unreached };
  }

  return {
    async page({ limit, cursor }) {
      const after = fromCursor(z.string(), cursor);
      const queuesOf = await queuesByGate();
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
      return { ...(await currentJob(job, unreached)), calls };
    },
  };
}

/**
 * Reads only the queues that exist in this partition, because a read of a missing queue costs as much as any other
 * read.
 */
function readOwnQueues({
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

/** Groups the rows by queue. A queue has one row in each partition. */
function groupByQueue(rows: readonly Row[]): Map<QueueName, Row[]> {
  const found = new Map<QueueName, Row[]>();
  for (const row of rows) {
    const others = found.get(row.queue);
    if (others === undefined) found.set(row.queue, [row]);
    else others.push(row);
  }
  return found;
}

/** Orders jobs by their numbers, then `callback`, then the single receivers. */
function byNumber(a: string, b: string): number {
  if (a === b) return 0;
  const [isCallback, isOther] = [a, b].map((gate) => gate.startsWith(CALLBACKS_GATE));
  if (isCallback || isOther) return Number(isCallback) - Number(isOther) || (a < b ? -1 : 1);
  const [ids, others] = [idsOfKey(a), idsOfKey(b)];
  return ids.serviceId - others.serviceId || ids.jobIndex - others.jobIndex;
}

/** The settings of a job for which none are stored. */
const NO_GATE: JobGate = {
  pausedAt: undefined,
  pausedBy: undefined,
  reason: undefined,
  throttledUntil: undefined,
};

type JobCounts = QueueDepth & { origins: string[]; now: number };

function toView(job: string, gate: JobGate, holds: JobCounts): JobView {
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
