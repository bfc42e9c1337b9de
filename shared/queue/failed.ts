import { type ErrorCode, isErrorCode } from "../errors/codes.ts";
import { JobCall, type Origin } from "../job-call/job-call.ts";
import type { Partition } from "../redis/partition.ts";
import { script } from "../redis/script.ts";
import { VERSIONS } from "../redis/version.ts";
import type { FailedRef } from "./call-record.ts";
import { decodeHead, type FailedHead, HEAD_FIELD, headOfStored } from "./failed-head.ts";
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
  /** The sender's own id of the delivery. */
  deliveryId?: string | undefined;
  /** Lower case. */
  payer?: string | undefined;
  transaction?: string | undefined;
  serviceId?: number | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** How many bytes of calls without a head one script may look through. */
const SCANNED_AT_ONCE = 1024 * 1024;

/** Lua with a function that reads a stored call without its body, if the rest is not too long: base64 has no quotes. */
export const BODILESS = `
local function bodiless(key, field)
  local data = redis.call('HGET', key, field) or ''
  local from = string.find(data, '"body":"', 1, true)
  local to = from and string.find(data, '"', from + 8, true)
  if to then data = string.sub(data, 1, from + 7) .. string.sub(data, to) end
  if #data > 65536 then return '' end
  return data
end`;

/**
 * What is known of calls without their bodies. KEYS registry. ARGV prefix, bytes to look through, how the reason begins (empty if any
 * will do), what must be in a head as it stands there (a JSON array), whether to count only, then queue and id of each call. Answers how
 * many of the calls it looked at; how many of these match, if they are only to be counted; and a row for each other call that matches,
 * or of which only the caller can say.
 *
 * A call has no head if its producer did not read it (`call.poison_pill`, `call.corrupt`), or if an earlier release or BullMQ itself
 * has failed it. The last place of its row has the stored call without the body.
 */
const READ = `${BODILESS}
local rows, counted, done, budget = {}, 0, 0, tonumber(ARGV[2])
local reason, texts, counts = ARGV[3], cjson.decode(ARGV[4]), ARGV[5] == '1'
local function hasTexts(head)
  for _, text in ipairs(texts) do
    if not string.find(head, text, 1, true) then return false end
  end
  return true
end

for i = 6, #ARGV, 2 do
  local key = ARGV[1] .. ':' .. ARGV[i] .. ':' .. ARGV[i + 1]
  local row = redis.call('HMGET', key, 'finishedOn', 'failedReason', 'timestamp', 'atm', '${HEAD_FIELD}')
  local head, hasLeft = row[5], not row[1]
  row[1] = done
  if hasLeft then -- it is no longer among the failed calls
  elseif head and string.find(head, '^{"v":${VERSIONS.failedHead}[,}]') then
    if string.sub(row[2] or '', 1, #reason) == reason and hasTexts(head) then
      if counts then counted = counted + 1 else rows[#rows + 1] = row end
    end
  else
    if not head then
      budget = budget - redis.call('HSTRLEN', key, 'data')
      if budget < 0 and done > 0 then break end
      row[6] = bodiless(key, 'data')
    end
    rows[#rows + 1] = row
  end
  done = done + 1
end
return {done, counted, rows}`;

type Row = [
  /** Of the call among those asked for. */
  position: number,
  failedReason: string | null,
  timestamp: string | null,
  atm: string | null,
  head: string | null,
  bodiless?: string,
];

/** `counted` are not among `calls`. */
type Page = { counted: number; calls: FailedCall[] };

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls of all queues, and changes nothing. Only `stored` reads a body. */
export function createFailedCalls({ redis, keys, prefix, ...partition }: Partition) {
  const index = createFailedIndex({ redis, keys, prefix, ...partition });
  const read = script(redis, READ);

  async function readAll(refs: readonly FailedRef[], filter: CallFilter, countOnly: boolean): Promise<Page> {
    const page: Page = { counted: 0, calls: [] };
    const { reason, texts } = inRedis(filter);
    const args = [prefix, SCANNED_AT_ONCE, reason, JSON.stringify(texts), countOnly ? 1 : 0];
    for (let at = 0; at < refs.length; ) {
      const asked = refs.slice(at);
      const named = asked.flatMap(({ queue, id }) => [queue, id]);
      const [done, counted, rows] = (await read([keys.queues], [...args, ...named])) as [
        number,
        number,
        Row[],
      ];
      const calls = rows.map((row) => toCall(asked[row[0]] as FailedRef, row));
      page.calls.push(...calls.filter((call) => matches(call, filter)));
      page.counted += counted;
      at += done;
    }
    return page;
  }

  async function* pages(filter: CallFilter, order: Order, countOnly = false): AsyncGenerator<Page> {
    const range = rangeOf(filter);
    const found = filter.ids ? index.find(filter.ids, range) : index.walk(range, order);
    for await (const refs of found) yield readAll(refs, filter, countOnly);
  }

  /** The calls that match, by the time they failed, or in the order of the ids. Only some are in memory at a time. */
  async function* matching(
    filter: CallFilter,
    { newestFirst = false, signal }: { newestFirst?: boolean; signal?: AbortSignal } = {},
  ): AsyncGenerator<FailedCall> {
    const order = newestFirst ? "newest first" : "oldest first";
    for await (const { calls } of pages(filter, order)) {
      yield* calls;
      if (signal?.aborted) return;
    }
  }

  return {
    matching,

    /** How many calls match. Cheap if the filter has only origin, service, job and times. */
    async count(filter: CallFilter): Promise<number> {
      const { ids, code } = filter;
      const byIndex = ids === undefined && code === undefined && headFields(filter).length === 0;
      if (byIndex) return index.count(rangeOf(filter));
      let count = 0;
      const countOnly = code !== UNKNOWN; // which no reason begins with
      for await (const { counted, calls } of pages(filter, "any", countOnly)) count += counted + calls.length;
      return count;
    },

    async find(id: string): Promise<FailedCall | undefined> {
      for await (const call of matching({ ids: [id] })) return call;
      return undefined;
    },

    /** What a queue holds of a call, failed or not. Undefined if the call has left it since. */
    async stored({ queue, id }: Pick<FailedRef, "queue" | "id">): Promise<StoredCall | undefined> {
      const data = await redis.hget(keys.inQueue(queue, id), "data");
      if (data === null) return undefined;
      const stored = parsed(data);
      return { call: JobCall.safeParse(stored).data, stored };
    },
  };
}

function toCall(ref: FailedRef, [, failedReason, timestamp, atm, stored, bodiless]: Row): FailedCall {
  const head = stored === null ? headOfStored(parsed(bodiless ?? "")) : decodeHead(stored);
  const { id, queue, failedAt } = ref;
  const { code, reason } = toFailure(failedReason ?? "");
  const acceptedAt = head.accepted_at ?? Number(timestamp);
  return {
    id,
    queue,
    failedAt,
    origin: originOf(queue),
    acceptedAt,
    attempts: Number(atm),
    code,
    reason,
    head,
  };
}

/** The text itself if it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The code of a call that failed for a reason without a code. */
const UNKNOWN = "internal.unexpected" satisfies ErrorCode;

/** The producer's retry policy writes `code: reason`. A text without a known code is BullMQ's own. */
export function toFailure(text: string): { code: ErrorCode; reason: string } {
  const end = text.indexOf(": ");
  const code = text.slice(0, Math.max(end, 0));
  if (!isErrorCode(code)) return { code: UNKNOWN, reason: text };
  return { code, reason: text.slice(end + 2) };
}

/** What the filter wants of a head, by the name that it has there. */
function headFields({ endpoint, deliveryId, payer, transaction }: CallFilter) {
  const wanted = { path: endpoint, delivery_id: deliveryId, payer, transaction };
  return (Object.entries(wanted) as [keyof typeof wanted, string | undefined][]).flatMap(([name, text]) =>
    text === undefined ? [] : [[name, text] as const],
  );
}

/** What the reason of a call that matches begins with, and what is in its head. */
function inRedis(filter: CallFilter): { reason: string; texts: string[] } {
  const { code } = filter;
  return {
    reason: code === undefined || code === UNKNOWN ? "" : `${code}: `,
    texts: headFields(filter).map(([name, text]) => JSON.stringify({ [name]: text }).slice(1, -1)),
  };
}

function matches({ code, head }: FailedCall, filter: CallFilter): boolean {
  if (filter.code !== undefined && code !== filter.code) return false;
  return headFields(filter).every(([name, text]) => head[name] === text);
}

function rangeOf({ origin, serviceId, jobId, since, until }: CallFilter): Range {
  return { origin, serviceId, jobId, since, until };
}
