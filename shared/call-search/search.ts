import { mergePages } from "../redis/pages.ts";
import type { Partitions } from "../redis/partition.ts";
import type { CallSearch, FoundCall, FoundPage, PageCursor, SearchCalls } from "./found-call.ts";
import { createFindNamed, normalized, wholeId } from "./named-calls.ts";
import { createAllSources, isFound, type Source } from "./sources.ts";

export type SearchOptions = {
  /** The paths of the endpoints that there are, by which a delivery is found whatever became of its call. */
  paths: () => readonly string[];
  /** After so many ms a search ends with what it has found. */
  patienceMs: number;
};

/**
 * Looks for calls wherever there are some: in the queues, among those that failed, among those that runners took lately, and among
 * payments. Without a state, of the calls that are no longer anywhere only those with an id, or a delivery id of a known endpoint, are
 * found. It reads no large body, and costs a bounded time.
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

/** Whether calls in this state may be known by their records alone, which are found only by an id. */
export function isUnlisted({ id, deliveryId, endpoint, origin, state }: CallSearch): boolean {
  if (id !== undefined || (deliveryId !== undefined && endpoint !== undefined)) return false;
  return state === "missing" || (state === "discarded" && origin !== "x402");
}

/** What is left to find after a page. */
function from(asked: CallSearch, after: PageCursor | undefined): CallSearch {
  return after === undefined ? asked : { ...asked, until: Math.min(asked.until ?? after.at, after.at) };
}

/** So many calls that match, none twice, without those that were seen. Their order is not exact if calls move meanwhile. */
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

/** Enough of an id to tell calls apart that are found by one search; a cursor may have hundreds. */
export function beginningOf({ id }: FoundCall): string {
  return id.slice(0, 14);
}

async function* toSource(calls: FoundCall[]): Source {
  if (calls.length > 0) yield calls;
}

function newestFirst(a: FoundCall, b: FoundCall): number {
  return b.at - a.at || (a.id < b.id ? 1 : -1);
}
