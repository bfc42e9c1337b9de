import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import type { CallHead } from "../call/job-call.ts";
import { ORIGINS } from "../call/origin.ts";
import type { RecordState } from "../call/record-state.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { isErrorCode } from "../platform/errors/codes.ts";
import { toIso } from "../platform/time/iso.ts";
import { createAllFailed } from "../queue/all-failed.ts";
import type { FailedAttempt } from "../queue/call-log.ts";
import { createCallRecords } from "../queue/call-record.ts";
import { createDiscard } from "../queue/discard.ts";
import type { CallFilter, FailedCall } from "../queue/failed.ts";
import { type Operate, type OperatorDeps, operateIn } from "../queue/operate.ts";
import { jobIdsOf, originOf } from "../queue/queue-name.ts";
import { openRegistry } from "../queue/registry.ts";
import { createReplay } from "../queue/replay.ts";
import { createAudit } from "../redis/audit/audit.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { errorCode } from "./contract/parameters.ts";
import { fromCursor, next, type PageRequest, toCursor } from "./cursor.ts";
import { askedMs, askedTime, count, isoTime } from "./view.ts";

/** A failed call without its body. Unknown values are absent. */
export const FailedCallView = z
  .object({
    id: z.string(),
    /** Origin. An older or newer release may have stored a value that is unknown here. */
    origin: z.string(),
    /** Path of the endpoint that received the call. */
    endpoint: z.string().optional(),
    service_id: count,
    job_id: count,
    failed_at: isoTime,
    accepted_at: isoTime,
    /** Number of attempts since the call was queued or last replayed. */
    attempts: count,
    code: z.string(),
    reason: z.string(),
    content_type: z.string().optional(),
    bytes: count.optional(),
    sha256: z.string().optional(),
    traceparent: z.string().optional(),
  })
  .meta({ id: "FailedCall" });
export type FailedCallView = z.infer<typeof FailedCallView>;

const AttemptView = z
  .object({
    /** Number of the attempt, counted since the call was accepted. */
    n: z.int(),
    at: isoTime,
    code: z.string(),
    reason: z.string(),
    worker: z.string(),
    /** Duration in ms. Absent if an older release made the attempt. */
    ms: count.optional(),
    /** HTTP status of the answer, if one came. */
    status: count.optional(),
  })
  .meta({ id: "FailedAttempt" });

/** All data of a failed call except its body. */
export const FailedCallDetail = FailedCallView.extend({
  /** State in the call's record. Absent if the call has no record, as a webhook without a delivery id may. */
  record: z.string().optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  /** The newest failed attempts, oldest first. */
  failed_attempts: z.array(AttemptView),
  /** The stored data, if it cannot be read as a call. */
  stored: z.unknown().optional(),
}).meta({ id: "FailedCallDetail" });
export type FailedCallDetail = z.infer<typeof FailedCallDetail>;

/** Failed calls of one job, with one origin and one error code. */
export const FailedGroupView = z
  .object({
    origin: z.string(),
    service_id: count,
    job_id: count,
    code: z.string(),
    count,
    oldest_at: isoTime,
    newest_at: isoTime,
    newest_reason: z.string(),
    /** Number of failures in each clock hour of the last day, oldest first. The last hour is not over yet. */
    by_hour: z.array(count).length(24),
  })
  .meta({ id: "FailedGroup" });
export type FailedGroupView = z.infer<typeof FailedGroupView>;

/** Selects failed calls that meet every field present. The times are those of the failure, both inclusive. */
export const FailedFilter = z
  .strictObject({
    origin: z.enum(ORIGINS).optional(),
    endpoint: z.string().min(1).max(2048).optional(),
    service_id: count.optional(),
    job_id: count.optional(),
    code: errorCode.optional(),
    /** Text in the id, reason, endpoint or delivery id; case-insensitive. */
    text: z.string().min(1).max(256).optional(),
    since: askedTime.optional(),
    until: askedTime.optional(),
  })
  .meta({ id: "FailedFilter" });
export type FailedFilter = z.infer<typeof FailedFilter>;

export const FailedPage = z.object({
  calls: z.array(FailedCallView),
  /** Null on the last page. Any other page may be empty, because one request reads a limited number of calls. */
  next,
});
export type FailedPage = z.infer<typeof FailedPage>;

const Place = z.strictObject({ failedAt: z.number(), id: z.string().regex(CALL_ID) });

export type FailedApi = {
  /** Lists failed calls, newest first. */
  page(filter: FailedFilter, page: PageRequest): Promise<FailedPage>;
  /** Counts the calls that match, and all failed calls. */
  count(filter: FailedFilter, signal?: AbortSignal): Promise<{ matched: number; total: number }>;
  groups(filter: FailedFilter, signal?: AbortSignal): Promise<FailedGroupView[]>;
  /**
   * Shows a failed call. For any other call, throws `call.not_failed`, `call.forgotten` or `call.unknown`, with a
   * message that says where the call is. The other methods with an id throw the same.
   */
  show(id: string): Promise<FailedCallDetail>;
  /**
   * Reads the body, and writes a line in the audit log. Throws `call.corrupt` if the stored data cannot be read as a
   * call.
   */
  body(id: string): Promise<Buffer>;
  /** Replays the call. Throws `call.too_old` if its runner may run it twice, unless `force` is set. */
  replay(id: string, why: { reason: string; force: boolean }): Promise<void>;
  discard(id: string, why: { reason: string }): Promise<void>;
};

type Deps = OperatorDeps & {
  /** Redis connections with a longer timeout, because a reply with a large body takes long. */
  patient: Partitions;
  /**
   * Time for which the runner remembers the keys of calls (`Idempotency-Key`). Within this time it does not run a
   * call twice.
   */
  runnerMemoryMs: number;
};

/** Implements the operations on single failed calls. Each act writes a line in the audit log. */
export function createFailedApi(deps: Deps): FailedApi {
  const { partitions, clock, log, by, runnerMemoryMs } = deps;
  const calls = createAllFailed(partitions);
  const bodies = createAllFailed(deps.patient);
  const records = partitions.map(createCallRecords);
  const audits = partitions.map((partition) => createAudit(partition, log));
  const [replay, discard] = [operateIn(createReplay, deps), operateIn(createDiscard, deps)];

  async function find(id: string): Promise<FailedCall> {
    const found = await calls.find(id);
    if (found === undefined) throw await whereIs(partitions.of(id), id);
    return found;
  }

  async function operate(operation: Operate, found: FailedCall, reason: string): Promise<void> {
    const operated = await operation(found, { selection: "by id", reason });
    if (operated === "left") throw await whereIs(partitions.of(found.id), found.id);
  }

  return {
    async page(filter, { limit, cursor }) {
      const page = await calls.page(toCallFilter(filter), { after: fromCursor(Place, cursor), limit });
      return { calls: page.calls.map(toView), next: toCursor(page.next) };
    },

    async count(filter, signal) {
      const [matched, total] = await Promise.all([
        calls.count(toCallFilter(filter), signal),
        calls.count({}),
      ]);
      return { matched, total };
    },

    async groups(filter, signal) {
      const groups = await calls.groups(toCallFilter(filter), signal);
      const thisHour = Math.floor(clock() / HOUR_MS);
      return groups.map(({ queue, code, count: times, hours, oldestAt, newestAt, newestReason }) => {
        const { serviceId, jobIndex } = jobIdsOf(queue);
        return {
          origin: originOf(queue),
          service_id: serviceId,
          job_id: jobIndex,
          code,
          count: times,
          oldest_at: toIso(oldestAt),
          newest_at: toIso(newestAt),
          newest_reason: newestReason,
          by_hour: Array.from({ length: DAY_HOURS }, (_, i) => hours[thisHour - DAY_HOURS + 1 + i] ?? 0),
        };
      });
    },

    async show(id) {
      const found = await find(id);
      const own = records.of(id);
      const [head, record, attempts] = await Promise.all([
        calls.head(found),
        own.state(id),
        own.attempts(id),
      ]);
      if (head === undefined) throw await whereIs(partitions.of(id), id);
      return toDetail(found, head, record, attempts);
    },

    async body(id) {
      const stored = await bodies.stored(await find(id));
      if (stored === undefined) throw await whereIs(partitions.of(id), id);
      if (stored.call !== undefined) {
        await audits.of(id)({ at: clock(), action: "read_body", callId: id, by, selection: "by id" });
        return Buffer.from(stored.call.body, "base64");
      }
      throw AppError.public("call.corrupt", `${id}: the stored data is unreadable as a call`);
    },

    async replay(id, { reason, force }) {
      const found = await find(id);
      if (!force && isTooOld(found, runnerMemoryMs, clock())) throw tooOldError(id);
      await operate(replay, found, reason);
    },

    discard: async (id, { reason }) => operate(discard, await find(id), reason),
  };
}

const HOUR_MS = 3_600_000;
const DAY_HOURS = 24;

/** Returns whether the runner may have forgotten the call's key, so that it may run the call a second time. */
export function isTooOld({ acceptedAt }: FailedCall, runnerMemoryMs: number, now: number): boolean {
  return now - acceptedAt > runnerMemoryMs;
}

function tooOldError(id: string): AppError {
  const why = "it was accepted more than runner.memory_secs ago";
  return AppError.public(
    "call.too_old",
    `${id}: ${why}, so the runner may have forgotten it and may run it twice; set force to replay it`,
  );
}

export function toCallFilter(filter: FailedFilter): CallFilter {
  const { origin, endpoint, service_id: serviceId, job_id: jobId, code, text, since, until } = filter;
  return {
    origin,
    endpoint,
    serviceId,
    jobId,
    code: code !== undefined && isErrorCode(code) ? code : undefined,
    text,
    since: askedMs(since),
    until: askedMs(until),
  };
}

function toView({ id, queue, origin, failedAt, acceptedAt, attempts, code, reason, head }: FailedCall) {
  const { serviceId, jobIndex } = jobIdsOf(queue);
  const { path, content_type, bytes, sha256, traceparent } = head;
  return {
    id,
    origin,
    ...(path !== undefined && { endpoint: path }),
    service_id: serviceId,
    job_id: jobIndex,
    failed_at: toIso(failedAt),
    accepted_at: toIso(acceptedAt),
    attempts,
    code,
    reason,
    ...(content_type !== undefined && { content_type }),
    ...(bytes !== undefined && { bytes }),
    ...(sha256 !== undefined && { sha256 }),
    ...(traceparent !== undefined && { traceparent }),
  } satisfies FailedCallView;
}

function toDetail(
  found: FailedCall,
  { call, stored }: { call: CallHead | undefined; stored: unknown },
  record: RecordState | undefined,
  attempts: readonly FailedAttempt[],
): FailedCallDetail {
  return {
    ...toView(found),
    ...(record !== undefined && { record }),
    ...(call !== undefined && { metadata: call.metadata }),
    failed_attempts: attempts.map(({ n, at, code, reason, worker, ms, status }) => ({
      n,
      at: toIso(at),
      code,
      reason,
      worker,
      ...(ms !== undefined && { ms }),
      ...(status !== undefined && { status }),
    })),
    ...(call === undefined && { stored }),
  };
}

/** Returns the error to throw for an id that is not among the failed calls. Its message says where the call is. */
export async function whereIs(partition: Partition, id: string): Promise<AppError> {
  const place = (await openRegistry(partition).find(id))?.state;
  if (place !== undefined) return notFailedError(`${id} is not a failed call: it is ${place} in the queue`);
  const records = createCallRecords(partition);
  const [record, forgottenAt] = await Promise.all([records.state(id), records.forgottenAt(id)]);
  if (forgottenAt !== undefined) {
    const reason = `${id} was forgotten at ${toIso(forgottenAt)}: it can no longer be shown or replayed`;
    return AppError.public("call.forgotten", reason);
  }
  if (record === undefined)
    return AppError.public(
      "call.unknown",
      `${id} is unknown: there was no such call, or it is no longer kept`,
    );
  return notFailedError(`${id} is not a failed call${recordText(record)}`);
}

function notFailedError(reason: string): AppError {
  return AppError.public("call.not_failed", reason);
}

function recordText(record: RecordState): string {
  if (record === "REFUND_PENDING" || record === "REFUNDED")
    return `: ${REFUNDS[record]}, so it cannot be replayed or discarded`;
  return `: it is ${record.toLowerCase()}`;
}

const REFUNDS = {
  REFUND_PENDING: "the refund of its payment is exported",
  REFUNDED: "its payment was refunded",
} as const;
