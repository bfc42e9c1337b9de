import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { bytes, list, oneOf, optional } from "../../redis/reply.ts";
import { readFailed } from "../../redis/unreadable.ts";
import { RECORD, toState } from "../record-state.ts";
import readLua from "./read.lua";
import readStatusLua from "./read-status.lua";
import { decodeResult, type ProblemText, type ResultLimits, type StoredResult } from "./result.ts";
import tellProgressLua from "./tell-progress.lua";

/** What there is to say of a call's result. */
export type ResultRead =
  /** It has not ended, or its runner still has to deliver. `state` is its record's, since `changedAt` (unix ms). */
  | { kind: "pending"; state: string; changedAt: number; progress: Progress | undefined }
  | StoredResult
  /** The call failed for good: Postern's code, and what the runner said of it. */
  | ({ kind: "failed"; code: string; at: number } & ProblemText)
  /** There was a result, and it is kept no more. */
  | { kind: "gone" }
  /** The call has ended, and its job keeps no results. */
  | { kind: "none kept" }
  /** There is no record of such a call. One of a webhook without a delivery id has none before it ends. */
  | { kind: "unknown" };

/** How a call stands, by its record: the state, since when, how many attempts have ended, and what there is to say of its result. */
export type CallStatus = { state: string; changedAt: number; attempts: number; result: ResultRead };

/** What the runner of a long job last said, as JSON, and when. */
export type Progress = { at: number; json: string };

export type Results = ReturnType<typeof createResults>;

const READ = defineScript({
  source: readLua,
  keys: "record, result, progress",
  proof: "reads",
  strings: "bytes",
  reply: list(optional(bytes)),
});

/** No first line of a result is as long: so much tells all of it but the body. */
export const HEAD_BYTES_MAX = 16_384;

const READ_STATUS = defineScript({
  source: readStatusLua,
  keys: "record, result, progress, attempts",
  constants: { HEAD_BYTES_MAX },
  proof: "reads",
  strings: "bytes",
  reply: list(optional(bytes)),
});

const TELL_PROGRESS = defineScript({
  source: tellProgressLua,
  keys: "record",
  args: "prefix, id, resultMs, bytesMax, progress",
  constants: { RECORD },
  proof: "expendable",
  reply: oneOf("stored", "ended"),
});

/** Reads the results of one partition's calls. Nothing is retried here. */
export function createResults({ redis, keys }: Partition) {
  const [read, readStatus] = [READ.on(redis), READ_STATUS.on(redis)];
  const placesOf = (id: string) => ({
    record: keys.record(id),
    result: keys.result(id),
    progress: keys.progress(id),
  });

  return {
    /** What is known of a call's result. This and the other reads throw `queue.unavailable` and `record.unreadable`. */
    async read(id: string): Promise<ResultRead> {
      return toRead(id, await read(placesOf(id)).catch(rethrow));
    },

    /** Whether the call was paid for: the record of a paid call has the route that it was bought at. */
    async isPaid(id: string): Promise<boolean> {
      return (await redis.hexists(keys.record(id), "rt").catch(rethrow)) === 1;
    },

    /** The key of the call's job, as far as its record tells: that of a call without a delivery id does once it has ended. */
    async jobOf(id: string): Promise<string | undefined> {
      const [job, route] = await redis.hmget(keys.record(id), "jb", "rt").catch(rethrow);
      return jobOfRecord(job, route);
    },

    /** How a call stands, without the body of its result; undefined if there is no record of it. */
    async status(id: string): Promise<CallStatus | undefined> {
      const touched = { ...placesOf(id), attempts: keys.attempts(id) };
      return toStatus(id, await readStatus(touched).catch(rethrow));
    },

    /** The state of a call's record; undefined if there is none. */
    async state(id: string): Promise<string | undefined> {
      const st = await redis.hget(keys.record(id), "st").catch(rethrow);
      return st === null ? undefined : toState(id, st);
    },
  };
}

/** Remembers what a runner says of its progress, JSON, until it says something else or delivers. Throws `record.unreadable`. */
export function createTellProgress({ redis, keys, prefix }: Partition, limits: ResultLimits) {
  const { resultMs, bytesMax } = limits;
  const tell = TELL_PROGRESS.on(redis);
  return (id: string, progress: Progress): Promise<"stored" | "ended"> =>
    tell({ record: keys.record(id) }, { prefix, id, resultMs, bytesMax, progress: JSON.stringify(progress) });
}

/** The key of a call's job, by `jb` of its record, or by `rt`, the path that a payer bought it at. */
export function jobOfRecord(
  jb: string | null | undefined,
  rt: string | null | undefined,
): string | undefined {
  return jb ?? /[^/]+\/[^/]+$/.exec(rt ?? "")?.[0];
}

const rethrow = readFailed("the result cannot be read");

/** The fields of a record, as text. */
type RecordFields = {
  st: string | undefined;
  at: number;
  rs: string | undefined;
  failed: ResultRead | undefined;
};

/** What is stored of a result, of its progress, and in the record (read-record.lua). Throws `record.unreadable`. */
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
      // A discard removes what was delivered, and keeps the reason.
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
