import { toScored } from "../../redis/pages.ts";
import type { Partition } from "../../redis/partition.ts";
import { BLOCK_SPAN_MS, callsIn, type EndedCall } from "./block.ts";
import { idOf } from "./keep.ts";

/** Selects calls that meet every field present. The times are when a call ended, in unix ms, both inclusive. */
export type EndedFilter = {
  [Name in "id" | "endpoint" | "deliveryId" | "payer" | "transaction"]?: string | undefined;
} & {
  origin?: string | undefined;
  /** `<service id>/<job index>` */
  job?: string | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

const BLOCKS_AT_ONCE = 16;

/** Reads the calls that are remembered and match, newest first. Some blocks are in memory at a time. */
export function createReadHistory({ redis, keys }: Partition) {
  /** The blocks whose newest call ended at `until` or a little later, and those before, newest first. */
  async function* blocks({ since = 0, until = Number.POSITIVE_INFINITY }: EndedFilter, signal?: AbortSignal) {
    const max = Number.isFinite(until) ? until + BLOCK_SPAN_MS : "+inf";
    const members = toScored(await redis.zrevrangebyscore(keys.history, max, since, "WITHSCORES"));
    for (let i = 0; i < members.length && !signal?.aborted; i += BLOCKS_AT_ONCE) {
      const page = members.slice(i, i + BLOCKS_AT_ONCE);
      const texts = await redis.mget(page.map(({ member }) => keys.historyBlock(idOf(member))));
      for (const [at, text] of texts.entries()) yield { newest: page[at]?.score ?? 0, text: text ?? "" };
    }
  }

  return async function* matching(filter: EndedFilter, signal?: AbortSignal): AsyncGenerator<EndedCall> {
    const texts = textsOf(filter);
    let held: EndedCall[] = [];
    for await (const { newest, text } of blocks(filter, signal)) {
      // What comes from here on ended at `newest` at the latest.
      const [sure, rest] = split(held, newest);
      yield* sure;
      held = rest;
      if (text !== "" && texts.every((wanted) => text.includes(wanted)))
        held.push(...callsIn(text, texts).filter((call) => matches(call, filter)));
      held.sort((a, b) => b.endedAt - a.endedAt || (a.id < b.id ? 1 : -1));
    }
    yield* held;
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

/** What a line must have in it, as it stands there. */
function textsOf({ id, endpoint, deliveryId, payer, transaction, origin, job }: EndedFilter): string[] {
  const whole = [endpoint, deliveryId, payer, transaction].flatMap((text) =>
    text === undefined ? [] : [JSON.stringify(text)],
  );
  // Perhaps a prefix, so its closing quotation mark is not looked for.
  if (id !== undefined) whole.push(`"${id}`);
  if (origin !== undefined) whole.push(`"${origin}/`);
  if (job !== undefined) whole.push(`/${job}"`);
  return whole;
}

function matches(call: EndedCall, filter: EndedFilter): boolean {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY, origin, job } = filter;
  const same = (["endpoint", "deliveryId", "payer", "transaction"] as const).every(
    (name) => filter[name] === undefined || filter[name] === call[name],
  );
  return (
    same &&
    call.id.startsWith(filter.id ?? "") &&
    call.endedAt >= since &&
    call.endedAt <= until &&
    (origin === undefined || call.queue.startsWith(`${origin}/`)) &&
    (job === undefined || call.queue.endsWith(`/${job}`))
  );
}
