import { toScored } from "../../redis/pages.ts";
import { type Partition, shareOf } from "../../redis/partition.ts";
import { BLOCK_SPAN_MS, callsIn, type EndedCall } from "./block.ts";
import { idOf } from "./keep.ts";

/**
 * Selects calls that meet every field present. The times are when a call ended, in unix ms, both inclusive. `text` is somewhere in what is
 * remembered of a call, in upper or lower case.
 */
export type EndedFilter = {
  [Name in Same]?: string | undefined;
} & {
  id?: string | undefined;
  text?: string | undefined;
  /** Error code of its last failed attempt. */
  code?: string | undefined;
  origin?: string | undefined;
  /** `<service id>/<job index>` */
  job?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

const SAME = ["endpoint", "deliveryId", "payer", "transaction", "event"] as const;
type Same = (typeof SAME)[number];

/** Shared by the partitions, because a search reads all of them at once. */
const BLOCKS_AT_ONCE = 16;

/** Reads the calls that are remembered and match in pages, newest first. Some blocks are in memory at a time. */
export function createHistoryPages({ redis, keys, count }: Partition) {
  const atOnce = shareOf(BLOCKS_AT_ONCE, count);

  /** The blocks whose newest call ended at `until` or a little later, and those before, newest first. */
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
    const mayMatch = testOf(filter);
    let held: EndedCall[] = [];
    for await (const { newest, text } of blocks(filter, signal)) {
      // What comes from here on ended at `newest` at the latest.
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

/** Reads the same one by one. */
export function createReadHistory(partition: Partition) {
  const pages = createHistoryPages(partition);
  return async function* matching(filter: EndedFilter, signal?: AbortSignal): AsyncGenerator<EndedCall> {
    for await (const page of pages(filter, signal)) yield* page;
  };
}

/** Finds the call of this id among those that runners took. */
export function createFindEnded(partition: Partition) {
  const readHistory = createReadHistory(partition);
  return async function findEnded(id: string): Promise<EndedCall | undefined> {
    for await (const call of readHistory({ id })) return call;
    return undefined;
  };
}

/** Those that ended after this time, and the others. */
function split(calls: readonly EndedCall[], at: number): [EndedCall[], EndedCall[]] {
  const end = calls.findIndex(({ endedAt }) => endedAt <= at);
  return end === -1 ? [[...calls], []] : [calls.slice(0, end), calls.slice(end)];
}

/** Tests a line, or a whole block, for what the line of a call that matches has in it. */
function testOf(filter: EndedFilter): (stored: string) => boolean {
  const { id, text, code, origin, job } = filter;
  const whole = SAME.flatMap((name) => filter[name] ?? []).map((each) => JSON.stringify(each));
  // Perhaps a prefix, so its closing quotation mark is not looked for.
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
