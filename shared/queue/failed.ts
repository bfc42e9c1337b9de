import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, type Origin } from "../job-call/job-call.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import type { FailedRef } from "./call-record.ts";
import { type FailedHead, HEAD_FIELD, headOfStored, parsed, readHead } from "./failed-head.ts";
import { createFailedIndex, type Order, type Range } from "./failed-index.ts";
import { originOf } from "./queue-name.ts";

/** A call that waits for an operator, without its body. `acceptedAt` and `failedAt` are unix ms. */
export type FailedCall = FailedRef & {
  /** It may be one that this release does not know. */
  origin: string;
  acceptedAt: number;
  /** Attempts spent since it was queued or last replayed. */
  attempts: number;
  code: ErrorCode;
  reason: string;
  head: FailedHead;
};

/** What lies in the queue; `call` is undefined if that is not a call of this version. */
export type StoredCall = { call: JobCall | undefined; stored: unknown };

/** Selects failed calls that meet every field present. The times are when a call failed, in unix ms, both inclusive. */
export type CallFilter = {
  ids?: readonly string[] | undefined;
  origin?: Origin | undefined;
  /** The webhook path that received it. */
  endpoint?: string | undefined;
  serviceId?: number | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** How many bytes of calls without a head one script may look through. */
const SCANNED_AT_ONCE = 1024 * 1024;

/**
 * What is known of calls without their bodies. KEYS registry. ARGV prefix, bytes to look through, then queue and id of each call.
 * Answers for the first so many of them; the last place of a call without a head has the stored call without its body. Such a
 * call was failed by an earlier release, or by BullMQ itself. Base64 has no quotes.
 */
const HEADS = `
local function bodiless(key)
  local data = redis.call('HGET', key, 'data') or ''
  local from = string.find(data, '"body":"', 1, true)
  local to = from and string.find(data, '"', from + 8, true)
  if to then data = string.sub(data, 1, from + 7) .. string.sub(data, to) end
  if #data > 65536 then return '' end
  return data
end

local rows, left = {}, tonumber(ARGV[2])
for i = 3, #ARGV, 2 do
  local key = ARGV[1] .. ':' .. ARGV[i] .. ':' .. ARGV[i + 1]
  local row = redis.call('HMGET', key, 'finishedOn', 'failedReason', 'timestamp', 'atm', '${HEAD_FIELD}')
  if row[1] and not row[5] then
    left = left - redis.call('HSTRLEN', key, 'data')
    if left < 0 and #rows > 0 then break end
    row[6] = bodiless(key)
  end
  rows[#rows + 1] = row
end
return rows`;

type Row = [
  finishedOn: string | null,
  failedReason: string | null,
  timestamp: string | null,
  atm: string | null,
  head: string | null,
  bodiless?: string,
];

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls of all queues, and changes nothing. Only `stored` reads a body. */
export function createFailedCalls({ redis, keys, prefix, ...partition }: Partition) {
  const index = createFailedIndex({ redis, keys, prefix, ...partition });
  const readHeads = script(redis, HEADS);

  /** Calls that have left the failed calls since they were listed are not among them. */
  async function load(refs: readonly FailedRef[]): Promise<FailedCall[]> {
    const loaded: FailedCall[] = [];
    for (let at = 0; at < refs.length; ) {
      const asked = refs.slice(at).flatMap(({ queue, id }) => [queue, id]);
      const rows = (await readHeads([keys.queues], [prefix, SCANNED_AT_ONCE, ...asked])) as Row[];
      for (const [i, row] of rows.entries()) {
        if (row[0] !== null) loaded.push(toCall(refs[at + i] as FailedRef, row));
      }
      at += rows.length;
    }
    return loaded;
  }

  async function* pages(filter: CallFilter, order: Order): AsyncGenerator<FailedCall[]> {
    const range = rangeOf(filter);
    const found = filter.ids ? index.find(filter.ids, range) : index.walk(range, order);
    for await (const refs of found) yield (await load(refs)).filter((call) => matches(call, filter));
  }

  /** The calls that match, by the time they failed, or in the order of the ids. Only some are in memory at a time. */
  async function* matching(filter: CallFilter, { newestFirst = false } = {}): AsyncGenerator<FailedCall> {
    for await (const page of pages(filter, newestFirst ? "newest first" : "oldest first")) yield* page;
  }

  return {
    matching,

    /** How many calls match. Cheap if the filter has only origin, service, job and times. */
    async count(filter: CallFilter): Promise<number> {
      const { ids, endpoint, code } = filter;
      const byIndex = [ids, endpoint, code].every((field) => field === undefined);
      if (byIndex) return index.count(rangeOf(filter));
      let count = 0;
      for await (const page of pages(filter, "any")) count += page.length;
      return count;
    },

    async find(id: string): Promise<FailedCall | undefined> {
      for await (const call of matching({ ids: [id] })) return call;
      return undefined;
    },

    /** Undefined if the call has left its queue since. */
    async stored({ queue, id }: FailedRef): Promise<StoredCall | undefined> {
      const data = await redis.hget(keys.inQueue(queue, id), "data");
      if (data === null) return undefined;
      const stored = parsed(data);
      return { call: JobCall.safeParse(stored).data, stored };
    },
  };
}

function toCall(ref: FailedRef, [, failedReason, timestamp, atm, stored, bodiless]: Row): FailedCall {
  const head = stored === null ? headOfStored(parsed(bodiless ?? "")) : readHead(stored);
  return {
    ...ref,
    origin: originOf(ref.queue),
    ...toFailure(failedReason ?? ""),
    acceptedAt: head.accepted_at ?? Number(timestamp),
    attempts: Number(atm),
    head,
  };
}

/** The producer's retry policy writes `code: reason`. A text without a known code is BullMQ's own. */
function toFailure(text: string): { code: ErrorCode; reason: string } {
  const end = text.indexOf(": ");
  const code = text.slice(0, Math.max(end, 0));
  if (!isErrorCode(code)) return { code: "internal.unexpected", reason: text };
  return { code, reason: text.slice(end + 2) };
}

function matches({ code, head }: FailedCall, filter: CallFilter): boolean {
  if (filter.code !== undefined && code !== filter.code) return false;
  return filter.endpoint === undefined || head.path === filter.endpoint;
}

function rangeOf({ origin, serviceId, jobId, since, until }: CallFilter): Range {
  return { origin, serviceId, jobId, since, until };
}
