import { type CallHead, JobCall } from "../call/job-call.ts";
import type { Origin } from "../call/origin.ts";
import { type ErrorCode, isErrorCode } from "../platform/errors/codes.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, list, numeric, optional, text, tuple } from "../redis/reply.ts";
import type { FailedRef } from "./call-record.ts";
import { decodeHead, type FailedHead, HEAD_FIELD, headOfStored } from "./failed-head.ts";
import { createFailedIndex, type Place, type Range } from "./failed-index.ts";
import { originOf, type QueueName } from "./queue-name.ts";
import readFailedLua from "./read-failed.lua";
import readHeadLua from "./read-head.lua";

/** A failed call without its body. `acceptedAt` and `failedAt` are unix ms. */
export type FailedCall = FailedRef & {
  /** Origin of the call. A later release may have added it under an origin that this one does not know. */
  origin: string;
  acceptedAt: number;
  /** Attempts since the call was queued or last replayed. */
  attempts: number;
  code: ErrorCode;
  reason: string;
  head: FailedHead;
};

/** A call as it is stored. `stored` is the parsed data, and `call` is undefined if that data is not a valid call. */
export type StoredCall = { call: JobCall | undefined; stored: unknown };

/** Like `StoredCall`, without the body. */
export type StoredHead = { call: CallHead | undefined; stored: unknown };

/**
 * Selects failed calls that match every field that is set. `since` and `until` limit the time of failure, unix ms, both
 * inclusive.
 */
export type CallFilter = {
  ids?: readonly string[] | undefined;
  origin?: Origin | undefined;
  /** The webhook path that received the call. */
  endpoint?: string | undefined;
  /** The sender's own id of the delivery. */
  deliveryId?: string | undefined;
  /** Address of the payer in lower case. */
  payer?: string | undefined;
  transaction?: string | undefined;
  serviceId?: number | undefined;
  jobId?: number | undefined;
  code?: ErrorCode | undefined;
  /** Text in the id, reason, path or delivery id; case-insensitive. */
  text?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/**
 * A failed call usually has a stored head, which a script reads instead of the whole call (failed-head.ts). Calls without one
 * are read whole, at most this many bytes of them in one script.
 */
export const SCANNED_AT_ONCE = 1024 * 1024;

const READ_HEAD = defineScript({ source: readHeadLua, keys: "call", proof: "reads", reply: optional(text) });

/**
 * Row of a call: its index in the request, reason, timestamp, attempts, head, and the stored call without its body. Only a
 * call without a head has the last one.
 */
const ROW = tuple(
  integer,
  optional(text),
  optional(numeric),
  optional(numeric),
  optional(text),
  optional(text),
);
type Row = ReturnType<typeof ROW>;

const READ = defineScript({
  source: readFailedLua,
  keys: "registry",
  args: "prefix, budget, reason, texts, countOnly, ...calls(queue, id)",
  constants: { HEAD_FIELD },
  proof: "reads",
  reply: tuple(integer, text, list(ROW)),
});

/**
 * Statistics of the calls that failed with one code. `hours` counts them per hour; its keys count hours since 1970. The
 * times are those of the oldest and the newest failure.
 */
type Tally = {
  count: number;
  hours: Record<string, number>;
  oldestAt: number;
  newestAt: number;
  newestReason: string;
};

/** A tally as the script returns it. `newest` is the newest reason, still with its code. */
type StoredTally = Omit<Tally, "newestReason"> & { newest: string };

/**
 * Result of reading some failed calls. `counted` has the statistics, by code, of the matching calls that the script only
 * counted. `calls` has the other matching calls.
 */
type Page = { counted: Map<ErrorCode, Tally>; calls: FailedCall[] };

/** The failed calls of one queue with one code. */
export type FailedGroup = Tally & { queue: QueueName; code: ErrorCode };

/** Maximum number of calls that are checked for one page. If few calls match, the page stays short. */
const SCANNED_MAX = 10_000;

export type FailedCalls = ReturnType<typeof createFailedCalls>;

/** Reads the failed calls of all queues, and changes nothing. Only `stored` reads a body. */
export function createFailedCalls(partition: Partition) {
  const { redis, keys } = partition;
  const readHead = READ_HEAD.on(redis);
  const reading = openReading(partition);
  const { index, readAll } = reading;

  /** Yields the matching calls, ordered by time of failure, or in the order of `ids`. Only a page at a time is in memory. */
  async function* matching(
    filter: CallFilter,
    { newestFirst = false, signal }: { newestFirst?: boolean; signal?: AbortSignal } = {},
  ): AsyncGenerator<FailedCall> {
    const range = rangeOf(filter);
    const order = newestFirst ? "newest first" : "oldest first";
    const found = filter.ids ? index.find(filter.ids, range) : index.walk(range, order);
    for await (const refs of found) {
      yield* (await readAll(refs, filter, false)).calls;
      if (signal?.aborted) return;
    }
  }

  return {
    matching,

    ...createCounting(reading),

    /**
     * Returns up to `limit` matching calls that follow `after`, newest first. Pass `next` as `after` to get the next page.
     * Only the last page has no `next`. Another page may be empty, because a page checks only a limited number of calls.
     */
    async page(
      filter: Omit<CallFilter, "ids">,
      { after, limit }: { after?: Place | undefined; limit: number },
    ): Promise<{ calls: FailedCall[]; next: Place | undefined }> {
      const calls: FailedCall[] = [];
      let lookedAt = 0;
      for await (const refs of index.walk(rangeOf(filter), "newest first", after)) {
        calls.push(...(await readAll(refs, filter, false)).calls);
        lookedAt += refs.length;
        if (calls.length > limit) return { calls: calls.slice(0, limit), next: placeOf(calls[limit - 1]) };
        if (lookedAt >= SCANNED_MAX) return { calls, next: placeOf(refs.at(-1)) };
      }
      return { calls, next: undefined };
    },

    async find(id: string): Promise<FailedCall | undefined> {
      for await (const call of matching({ ids: [id] })) return call;
      return undefined;
    },

    /** Reads a stored call without its body. Undefined if the call has left its queue. */
    async head({ queue, id }: FailedRef): Promise<StoredHead | undefined> {
      const data = await readHead({ call: keys.inQueue(queue, id) });
      if (data === undefined) return undefined;
      const stored = parsed(data);
      return { call: JobCall.safeParse(stored).data, stored };
    },

    /** Reads a stored call from its queue, failed or not. Undefined if the call has left the queue. */
    async stored({ queue, id }: Pick<FailedRef, "queue" | "id">): Promise<StoredCall | undefined> {
      const data = await redis.hget(keys.inQueue(queue, id), "data");
      if (data === null) return undefined;
      const stored = parsed(data);
      return { call: JobCall.safeParse(stored).data, stored };
    },
  };
}

type Reading = ReturnType<typeof openReading>;

function openReading(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const read = READ.on(redis);

  /** Reads the calls and returns those that match. With `countOnly`, only counts the matches that have a head. */
  async function readAll(refs: readonly FailedRef[], filter: CallFilter, countOnly: boolean): Promise<Page> {
    const page: Page = { counted: new Map(), calls: [] };
    const { reason, texts } = forScript(filter);
    const words = { prefix, budget: SCANNED_AT_ONCE, reason, texts: JSON.stringify(texts), countOnly };
    for (let at = 0; at < refs.length; ) {
      const asked = refs.slice(at);
      const [done, counted, rows] = await read({ registry: keys.queues }, { ...words, calls: asked });
      const calls = rows.map((row) => toCall(asked[row[0]] as FailedRef, row));
      page.calls.push(...calls.filter((call) => matches(call, filter)));
      for (const [code, { newest, ...tally }] of Object.entries(
        JSON.parse(counted) as Record<string, StoredTally>,
      ))
        add(page.counted, toCode(code), { ...tally, newestReason: toFailure(newest).reason });
      at += done;
    }
    return page;
  }

  return { index: createFailedIndex(partition), readAll };
}

function createCounting({ index, readAll }: Reading) {
  /** Counts the matching calls by code, in pages. Each page comes from one queue, unless the filter has ids. */
  async function* counted(filter: CallFilter, signal?: AbortSignal) {
    const range = rangeOf(filter);
    // read-failed.lua cannot count with these two filters. A call whose reason has no code also counts as UNKNOWN, and the
    // search for a text ignores case, which Lua cannot do for all letters.
    const countOnly = filter.code !== UNKNOWN && filter.text === undefined;
    const found = filter.ids ? index.find(filter.ids, range) : index.walk(range, "any");
    for await (const refs of found) {
      signal?.throwIfAborted();
      const page = await readAll(refs, filter, countOnly);
      for (const call of page.calls) add(page.counted, call.code, tallyOf(call));
      yield { queue: refs[0]?.queue ?? "", byCode: page.counted };
    }
  }

  return {
    /**
     * Counts the matching calls. If the filter has only origin, service, job and times, Redis counts them and no call is
     * read.
     */
    async count(filter: CallFilter, signal?: AbortSignal): Promise<number> {
      const { ids, code, text } = filter;
      const isNarrowed = [ids, code, text].some((each) => each !== undefined);
      const byIndex = !isNarrowed && headFields(filter).length === 0;
      if (byIndex) return index.count(rangeOf(filter));
      let count = 0;
      for await (const { byCode } of counted(filter, signal))
        for (const tally of byCode.values()) count += tally.count;
      return count;
    },

    /** Counts the matching calls by queue and code, with the times of the oldest and newest failure of each group. */
    async groups(filter: Omit<CallFilter, "ids">, signal?: AbortSignal): Promise<FailedGroup[]> {
      const groups = new Map<string, FailedGroup>();
      for await (const { queue, byCode } of counted(filter, signal)) {
        for (const [code, tally] of byCode) addGroup(groups, { queue, code, ...tally });
      }
      return [...groups.values()];
    },
  };
}

function toCall(ref: FailedRef, [, failedReason, timestamp, attempts, stored, bodiless]: Row): FailedCall {
  const head = stored === undefined ? headOfStored(parsed(bodiless ?? "")) : decodeHead(stored);
  const { id, queue, failedAt } = ref;
  const { code, reason } = toFailure(failedReason ?? "");
  const acceptedAt = head.accepted_at ?? Number(timestamp);
  return {
    id,
    queue,
    failedAt,
    origin: originOf(queue),
    acceptedAt,
    attempts: attempts ?? 0,
    code,
    reason,
    head,
  };
}

/** Parses JSON; returns the text itself if it is not JSON. */
function parsed(text: string): unknown {
  const json = parseJson(text);
  return json === undefined ? text : json;
}

/** Code for a call whose reason has no code. */
const UNKNOWN = "internal.unexpected" satisfies ErrorCode;

/** Splits a reason into code and text. The producer writes `code: reason`; a text without a known code comes from BullMQ. */
export function toFailure(text: string): { code: ErrorCode; reason: string } {
  const end = text.indexOf(": ");
  const code = text.slice(0, Math.max(end, 0));
  if (!isErrorCode(code)) return { code: UNKNOWN, reason: text };
  return { code, reason: text.slice(end + 2) };
}

/** Returns the text if it is a code of this release, else `internal.unexpected`. */
export function toCode(text: string): ErrorCode {
  return isErrorCode(text) ? text : UNKNOWN;
}

function add(tallies: Map<ErrorCode, Tally>, code: ErrorCode, tally: Tally): void {
  tallies.set(code, sumOf(tallies.get(code), tally));
}

/** Merges groups with the same queue and code. */
export function sumOfGroups(groups: readonly FailedGroup[]): FailedGroup[] {
  const sums = new Map<string, FailedGroup>();
  for (const group of groups) addGroup(sums, group);
  return [...sums.values()];
}

function addGroup(sums: Map<string, FailedGroup>, group: FailedGroup): void {
  const { queue, code } = group;
  const name = `${queue} ${code}`;
  sums.set(name, { queue, code, ...sumOf(sums.get(name), group) });
}

const HOUR_MS = 3_600_000;

function tallyOf({ failedAt, reason }: FailedCall): Tally {
  const hours = { [Math.floor(failedAt / HOUR_MS)]: 1 };
  return { count: 1, hours, oldestAt: failedAt, newestAt: failedAt, newestReason: reason };
}

function sumOf(one: Tally | undefined, other: Tally): Tally {
  if (one === undefined) return other;
  const { newestAt, newestReason } = one.newestAt > other.newestAt ? one : other;
  const hours = { ...one.hours };
  for (const [hour, times] of Object.entries(other.hours)) hours[hour] = (hours[hour] ?? 0) + times;
  const oldestAt = Math.min(one.oldestAt, other.oldestAt);
  return { count: one.count + other.count, hours, oldestAt, newestAt, newestReason };
}

function placeOf(ref: Place | undefined): Place | undefined {
  return ref && { failedAt: ref.failedAt, id: ref.id };
}

/** Lists the fields that a matching head must have, and their values. */
function headFields({ endpoint, deliveryId, payer, transaction }: CallFilter) {
  const wanted = { path: endpoint, delivery_id: deliveryId, payer, transaction };
  return (Object.entries(wanted) as [keyof typeof wanted, string | undefined][]).flatMap(([name, text]) =>
    text === undefined ? [] : [[name, text] as const],
  );
}

/**
 * Translates a filter into the two arguments of read-failed.lua: the text with which a matching reason begins, and texts that
 * the JSON of a matching head contains.
 */
function forScript(filter: CallFilter): { reason: string; texts: string[] } {
  const { code } = filter;
  return {
    reason: code === undefined || code === UNKNOWN ? "" : `${code}: `,
    texts: headFields(filter).map(([name, text]) => JSON.stringify({ [name]: text }).slice(1, -1)),
  };
}

function matches(call: FailedCall, filter: CallFilter): boolean {
  if (filter.code !== undefined && call.code !== filter.code) return false;
  if (filter.text !== undefined && !hasText(call, filter.text.toLowerCase())) return false;
  return headFields(filter).every(([name, text]) => call.head[name] === text);
}

function hasText({ id, reason, head }: FailedCall, text: string): boolean {
  return [id, reason, head.path, head.delivery_id].some((each) => each?.toLowerCase().includes(text));
}

function rangeOf({ origin, serviceId, jobId, since, until }: CallFilter): Range {
  return { origin, serviceId, jobId, since, until };
}
