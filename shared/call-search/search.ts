import { mergePages } from "../redis/pages.ts";
import type { Partitions } from "../redis/partition.ts";
import type { CallSearch, FoundCall, FoundPage, PageCursor, SearchCalls } from "./found-call.ts";
import { createFindNamed, normalized, wholeId } from "./named-calls.ts";
import { createAllSources, isFound, type Source } from "./sources.ts";

export type SearchOptions = {
  /** Returns the paths of the configured endpoints. With them, the call of a delivery is found in any state. */
  paths: () => readonly string[];
  /** Time limit in ms, after which a search returns what it has found. */
  patienceMs: number;
};

/**
 * Searches for calls in the queues, the failed calls, the history of injected calls and the payments. Calls that are in none
 * of these places are found only by an id, or by a delivery id at a known endpoint. A search reads no large body, and its
 * time is limited.
 */
export function createSearchCalls(partitions: Partitions, { paths, patienceMs }: SearchOptions): SearchCalls {
  const named = createFindNamed(partitions, paths);
  const sourcesOf = createAllSources(partitions);

  return async function search(given, { limit = 50, after } = {}): Promise<FoundPage> {
    const asked = normalized(given);
    const wanted = from(asked, after);
    const limits = { signal: AbortSignal.timeout(patienceMs), isCut: false };
    const known = (await named(asked)).sort(newestFirst);
    const sources = wholeId(asked) === undefined ? sourcesOf(wanted, limits) : [];
    const found = await firstOf([toSource(known), ...sources], wanted, limit + 1, after?.ids);
    const calls = found.slice(0, limit);
    const hasMore = found.length > limit;
    return {
      calls,
      next: hasMore ? cursorOf(calls, after) : undefined,
      isComplete: !limits.isCut && !isUnlisted(asked) && (hasMore || !limits.signal.aborted),
      isUnlisted: isUnlisted(asked),
    };
  };
}

/**
 * Returns whether the search asks for a state whose calls may be in no list. Those calls are found only by their call id,
 * or by their endpoint and delivery id.
 */
export function isUnlisted({ id, deliveryId, endpoint, origin, state }: CallSearch): boolean {
  if (id !== undefined || (deliveryId !== undefined && endpoint !== undefined)) return false;
  return state === "missing" || (state === "discarded" && origin !== "x402");
}

/** Limits a search to the calls that follow a page. */
function from(asked: CallSearch, after: PageCursor | undefined): CallSearch {
  return after === undefined ? asked : { ...asked, until: Math.min(asked.until ?? after.at, after.at) };
}

/**
 * Returns the first `count` matching calls, without repeats and without those whose ids begin as in `before`. Their order is
 * not exact if calls move between lists meanwhile.
 */
async function firstOf(
  sources: readonly Source[],
  wanted: CallSearch,
  count: number,
  before: readonly string[] = [],
): Promise<FoundCall[]> {
  const seen = new Set(before);
  const calls: FoundCall[] = [];
  for await (const page of mergePages(sources, (a, b) => newestFirst(a, b) < 0, 1)) {
    for (const call of page) {
      const beginning = beginningOf(call);
      if (seen.has(beginning) || !isFound(call, wanted)) continue;
      seen.add(beginning);
      calls.push(call);
    }
    if (calls.length === count) break;
  }
  return calls;
}

function cursorOf(calls: readonly FoundCall[], after: PageCursor | undefined): PageCursor | undefined {
  const at = calls.at(-1)?.at;
  if (at === undefined) return after;
  const ids = calls.filter((call) => call.at === at).map(beginningOf);
  return { at, ids: after?.at === at ? [...after.ids, ...ids] : ids };
}

/** Returns enough of an id to tell the calls of one search apart. The id is shortened because a cursor may have hundreds. */
export function beginningOf({ id }: FoundCall): string {
  return id.slice(0, 14);
}

async function* toSource(calls: FoundCall[]): Source {
  if (calls.length > 0) yield calls;
}

function newestFirst(a: FoundCall, b: FoundCall): number {
  return b.at - a.at || (a.id < b.id ? 1 : -1);
}
