import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { bytes, list, oneOf, optional } from "../../redis/reply.ts";
import { readFailed } from "../../redis/unreadable.ts";
import { RECORD, toState } from "../record-state.ts";
import readLua from "./read.lua";
import readStatusLua from "./read-status.lua";
import { decodeResult, type ProblemText, type ResultLimits, type StoredResult } from "./result.ts";
import tellProgressLua from "./tell-progress.lua";

/** State of a call's result. */
export type ResultRead =
  /** The call has not ended, or its runner delivers the result later. The record has had `state` since `changedAt` (unix ms). */
  | { kind: "pending"; state: string; changedAt: number; progress: Progress | undefined }
  | StoredResult
  /** The call failed for good, with Postern's code, and the runner's title and detail. */
  | ({ kind: "failed"; code: string; at: number } & ProblemText)
  /** There was a result, and it is no longer kept. */
  | { kind: "gone" }
  /** The call has ended, and its job keeps no results. */
  | { kind: "none kept" }
  /** There is no record of such a call. The call of a webhook without a delivery id has no record before it ends. */
  | { kind: "unknown" };

/**
 * Status of a call: the state and the time of its last change from the record, the number of attempts that have ended, and
 * the result.
 */
export type CallStatus = { state: string; changedAt: number; attempts: number; result: ResultRead };

/** The newest progress message from the runner of a long job, as JSON, and its time of arrival. */
export type Progress = { at: number; json: string };

export type Results = ReturnType<typeof createResults>;

const READ = defineScript({
  source: readLua,
  keys: "record, result, progress",
  proof: "reads",
  strings: "bytes",
  reply: list(optional(bytes)),
});

/** Number of bytes that are read to get a result's first line. The line is always shorter. */
export const HEAD_BYTES_MAX = 16_384;

const READ_STATUS = defineScript({
  source: readStatusLua,
  keys: "record, result, progress, attempts",
  constants: { HEAD_BYTES_MAX },
  proof: "reads",
  strings: "bytes",
  reply: list(optional(bytes)),
});

const STORE_PROGRESS = defineScript({
  source: tellProgressLua,
  keys: "record",
  args: "prefix, id, resultMs, bytesMax, progress",
  constants: { RECORD },
  proof: "expendable",
  reply: oneOf("stored", "ended"),
});

/** Reads the results of one partition's calls. Retries nothing. */
export function createResults({ redis, keys }: Partition) {
  const [read, readStatus] = [READ.on(redis), READ_STATUS.on(redis)];
  const placesOf = (id: string) => ({
    record: keys.record(id),
    result: keys.result(id),
    progress: keys.progress(id),
  });

  return {
    /**
     * Reads the result of a call. All functions of this object throw `queue.unavailable` if Redis is away, and
     * `record.unreadable` if the data cannot be parsed.
     */
    async read(id: string): Promise<ResultRead> {
      return toRead(id, await read(placesOf(id)).catch(rethrow));
    },

    /** Returns whether the call was paid for: the record of a paid call has the route at which it was bought. */
    async isPaid(id: string): Promise<boolean> {
      return (await redis.hexists(keys.record(id), "rt").catch(rethrow)) === 1;
    },

    /**
     * Returns the key of the call's job; undefined if its record does not have it. Without a delivery id, the record gets the
     * key when the call ends.
     */
    async jobOf(id: string): Promise<string | undefined> {
      const [job, route] = await redis.hmget(keys.record(id), "jb", "rt").catch(rethrow);
      return jobOfRecord(job, route);
    },

    /** Reads the status of a call, without the body of its result; undefined if there is no record. */
    async status(id: string): Promise<CallStatus | undefined> {
      const touched = { ...placesOf(id), attempts: keys.attempts(id) };
      return toStatus(id, await readStatus(touched).catch(rethrow));
    },

    /** Returns the state of a call's record; undefined without a record. */
    async state(id: string): Promise<string | undefined> {
      const st = await redis.hget(keys.record(id), "st").catch(rethrow);
      return st === null ? undefined : toState(id, st);
    },
  };
}

/**
 * Stores the runner's newest progress message, as JSON, until the next one or the delivery of the result replaces it.
 * Resolves with `ended` if the call no longer accepts progress. Throws `record.unreadable`.
 */
export function createStoreProgress({ redis, keys, prefix }: Partition, limits: ResultLimits) {
  const { resultMs, bytesMax } = limits;
  const tell = STORE_PROGRESS.on(redis);
  return (id: string, progress: Progress): Promise<"stored" | "ended"> =>
    tell({ record: keys.record(id) }, { prefix, id, resultMs, bytesMax, progress: JSON.stringify(progress) });
}

/** Returns the key of a call's job from its record: from `jb`, or from `rt`, the path at which a payer bought the call. */
export function jobOfRecord(
  jb: string | null | undefined,
  rt: string | null | undefined,
): string | undefined {
  return jb ?? /[^/]+\/[^/]+$/.exec(rt ?? "")?.[0];
}

const rethrow = readFailed("the result cannot be read");

/** Fields of a record, as text. */
type RecordFields = {
  st: string | undefined;
  at: number;
  rs: string | undefined;
  failed: ResultRead | undefined;
};

/**
 * Decodes what a script read of the result, of the progress and of the record (read-record.lua). Throws `record.unreadable`.
 */
export function toRead(
  id: string,
  [stored, progress, st, at, rs, fc, fp, fg]: (Buffer | null | undefined)[],
): ResultRead {
  const state = st ? toState(id, st.toString()) : undefined;
  if (fg) return { kind: "gone" };
  if (stored) return decodeResult(stored);
  const code = fc?.toString();
  const found: RecordFields = { st: state, at: Number(at ?? 0), rs: rs?.toString(), failed: undefined };
  if (code !== undefined) found.failed = { kind: "failed", code, at: found.at, ...toProblem(fp) };
  return withoutStored(found, progress ?? undefined);
}

function toStatus(id: string, found: readonly (Buffer | undefined)[]): CallStatus | undefined {
  const [newest, ...read] = found;
  const [, , st, at] = read;
  const state = st?.toString();
  if (state === undefined) return undefined;
  const { n } = newest ? (JSON.parse(newest.toString()) as { n: number }) : { n: 0 };
  const attempts = state === "INJECTED" ? n + 1 : n;
  return { state, changedAt: Number(at ?? 0), attempts, result: toRead(id, read) };
}

function withoutStored({ st, at, rs, failed }: RecordFields, progress: Buffer | undefined): ResultRead {
  const missing: ResultRead = rs === undefined || rs === "awaited" ? { kind: "none kept" } : { kind: "gone" };
  switch (st) {
    case undefined:
      return { kind: "unknown" };
    case "INJECTED":
      if (rs !== "awaited") return missing;
      break;
    case "FAILED":
      return missing.kind === "gone" ? missing : (failed ?? missing);
    case "DISCARDED":
    case "REFUND_PENDING":
    case "REFUNDED":
      // A discard removes a delivered result, and keeps the reason of the failure.
      return failed ?? missing;
    case "VOID":
      return missing;
  }
  return {
    kind: "pending",
    state: st,
    changedAt: at,
    progress: progress && (JSON.parse(progress.toString()) as Progress),
  };
}

function toProblem(fp: Buffer | null | undefined): ProblemText {
  return fp ? (JSON.parse(fp.toString()) as ProblemText) : {};
}
