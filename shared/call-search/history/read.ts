import { toScored } from "../../redis/pages.ts";
import { type Partition, shareOf } from "../../redis/partition.ts";
import { BLOCK_SPAN_MS, callsIn, type EndedCall } from "./block.ts";
import { idOf } from "./keep.ts";

/**
 * Selects calls that match every field that is set. `since` and `until` limit the time at which a call ended, unix ms, both
 * inclusive. `text` may be anywhere in the stored data of a call; case-insensitive.
 */
export type EndedFilter = {
  [Name in Same]?: string | undefined;
} & {
  id?: string | undefined;
  text?: string | undefined;
  /** Error code of the last failed attempt. */
  code?: string | undefined;
  origin?: string | undefined;
  /** `<service id>/<job index>` */
  job?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

const SAME = ["endpoint", "deliveryId", "payer", "transaction", "event"] as const;
type Same = (typeof SAME)[number];

/**
 * Maximum number of blocks that a search has in memory. A search reads all partitions at once, so each partition gets a
 * share of it.
 */
const BLOCKS_AT_ONCE = 16;

/** Reads the matching calls of the history in pages, newest first. Only some blocks are in memory at a time. */
export function createHistoryPages({ redis, keys, count }: Partition) {
  const atOnce = shareOf(BLOCKS_AT_ONCE, count);

  /** Reads the blocks that may have calls which ended between `since` and `until`, newest first. */
  async function* blocks({ since = 0, until = Number.POSITIVE_INFINITY }: EndedFilter, signal?: AbortSignal) {
    const max = Number.isFinite(until) ? until + BLOCK_SPAN_MS : "+inf";
    const members = toScored(await redis.zrevrangebyscore(keys.history, max, since, "WITHSCORES"));
    for (let i = 0; i < members.length && !signal?.aborted; i += atOnce) {
      const page = members.slice(i, i + atOnce);
      const texts = await redis.mget(page.map(({ member }) => keys.historyBlock(idOf(member))));
      for (const [at, text] of texts.entries()) yield { newest: page[at]?.score ?? 0, text: text ?? "" };
    }
  }

  return async function* pages(filter: EndedFilter, signal?: AbortSignal): AsyncGenerator<EndedCall[]> {
    const mayMatch = createLineTest(filter);
    let held: EndedCall[] = [];
    for await (const { newest, text } of blocks(filter, signal)) {
      // The blocks come newest first, so no call in this block or a further one ended after `newest`. Any call in `held`
      // that did comes before all calls that are still to be read.
      const [sure, rest] = split(held, newest);
      if (sure.length > 0) yield sure;
      held = rest;
      if (text !== "" && mayMatch(text))
        held.push(...callsIn(text, mayMatch).filter((call) => matches(call, filter)));
      held.sort((a, b) => b.endedAt - a.endedAt || (a.id < b.id ? 1 : -1));
    }
    if (held.length > 0) yield held;
  };
}

/** Reads the matching calls of the history one by one. */
export function createReadHistory(partition: Partition) {
  const pages = createHistoryPages(partition);
  return async function* matching(filter: EndedFilter, signal?: AbortSignal): AsyncGenerator<EndedCall> {
    for await (const page of pages(filter, signal)) yield* page;
  };
}

/** Finds the call with this id in the history of injected calls. */
export function createFindEnded(partition: Partition) {
  const readHistory = createReadHistory(partition);
  return async function findEnded(id: string): Promise<EndedCall | undefined> {
    for await (const call of readHistory({ id })) return call;
    return undefined;
  };
}

/** Splits the calls, which are sorted newest first, into those that ended after this time and the others. */
function split(calls: readonly EndedCall[], at: number): [EndedCall[], EndedCall[]] {
  const end = calls.findIndex(({ endedAt }) => endedAt <= at);
  return end === -1 ? [[...calls], []] : [calls.slice(0, end), calls.slice(end)];
}

/**
 * Returns a fast test for a stored line or a whole block. It says whether the text may have a matching call. It only
 * searches for texts that the line of every matching call contains.
 */
function createLineTest(filter: EndedFilter): (stored: string) => boolean {
  const { id, text, code, origin, job } = filter;
  const whole = SAME.flatMap((name) => filter[name] ?? []).map((each) => JSON.stringify(each));
  // The id may be a prefix, so its closing quotation mark is left out.
  if (id !== undefined) whole.push(`"${id}`);
  if (code !== undefined) whole.push(`"${code}: `);
  if (origin !== undefined) whole.push(`"${origin}/`);
  if (job !== undefined) whole.push(`/${job}"`);
  const loose = text === undefined ? undefined : JSON.stringify(text.toLowerCase()).slice(1, -1);
  return (stored) =>
    whole.every((each) => stored.includes(each)) &&
    (loose === undefined || stored.toLowerCase().includes(loose));
}

function matches(call: EndedCall, filter: EndedFilter): boolean {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, origin, job, code } = filter;
  return (
    SAME.every((name) => filter[name] === undefined || filter[name] === call[name]) &&
    call.id.startsWith(filter.id ?? "") &&
    call.endedAt >= since &&
    call.endedAt <= until &&
    (code === undefined || call.error?.startsWith(`${code}: `) === true) &&
    (origin === undefined || call.queue.startsWith(`${origin}/`)) &&
    (job === undefined || call.queue.endsWith(`/${job}`))
  );
}
