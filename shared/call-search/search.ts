import { mergePages } from "../redis/pages.ts";
import type { Partitions } from "../redis/partition.ts";
import type { CallSearch, FoundCall, FoundPage, PageCursor, SearchCalls } from "./found-call.ts";
import { createFindNamed, normalized, wholeId } from "./named-calls.ts";
import { createAllSources, isFound, type Source } from "./sources.ts";

export type SearchOptions = {
  /**
   * Returns the paths of the configured endpoints. The id of a webhook's call can be computed from such a path and the
   * delivery id. So a search for a delivery id finds the call in any state.
   */
  paths: () => readonly string[];
  /** Time limit in ms, after which a search returns what it has found. */
  patienceMs: number;
};

/**
 * Searches for calls in four places: the queues, the failed calls, the history of injected calls, and the payments. A call
 * in none of these places is found only by its id. A search for a delivery id computes the id that the call would have at
 * each known endpoint. A search reads no large body, and its time is limited.
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
 * Returns whether some calls in the requested state may be in no list that a search can read. An example is a call whose
 * queue has lost it (`missing`). Those calls are found only by their call id, or by their endpoint and delivery id.
 */
export function isUnlisted({ id, deliveryId, endpoint, origin, state }: CallSearch): boolean {
  if (id !== undefined || (deliveryId !== undefined && endpoint !== undefined)) return false;
  return state === "missing" || (state === "discarded" && origin !== "x402");
}

/**
 * Narrows a search to the calls that may be on the page after `after`. Results are sorted newest first, so these calls are
 * not newer than the last call of the previous page.
 */
function from(asked: CallSearch, after: PageCursor | undefined): CallSearch {
  return after === undefined ? asked : { ...asked, until: Math.min(asked.until ?? after.at, after.at) };
}

/**
 * Merges the sources, and returns the newest `count` calls that match, each call once. Leaves out the calls of the previous
 * page: `before` has the beginnings of their ids. A call that moves to another list during the search, for example because
 * it is injected, may appear in the wrong place.
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

/**
 * Returns the beginning of an id, which is long enough to tell the calls of one search apart. Cursors have beginnings
 * instead of whole ids, because one cursor may have hundreds of them.
 */
export function beginningOf({ id }: FoundCall): string {
  return id.slice(0, 14);
}

async function* toSource(calls: FoundCall[]): Source {
  if (calls.length > 0) yield calls;
}

function newestFirst(a: FoundCall, b: FoundCall): number {
  return b.at - a.at || (a.id < b.id ? 1 : -1);
}
