import type { Partitions } from "../redis/partition.ts";
import type { CallSearch, FoundCall } from "./found-call.ts";
import { createFindNamed, normalized, wholeId } from "./named-calls.ts";
import { beginningOf, isUnlisted, type SearchOptions } from "./search.ts";
import { createAllSources, isFound } from "./sources.ts";

/** Fields by which matching calls are counted. */
export const FACETS = ["state", "endpoint", "job", "event", "code"] as const;
export type FacetName = (typeof FACETS)[number];

/**
 * The most frequent values of a field, largest count first, and the number of calls with any other value. Calls without a
 * value are not counted here.
 */
export type Facet = { values: { value: string; count: number }[]; others: number };

export type CallFacets = {
  matched: number;
  facets: Record<FacetName, Facet>;
  /** `isComplete` and `isUnlisted` have the same meaning as in a page of calls (`FoundPage`). */
  isComplete: boolean;
  isUnlisted: boolean;
};

export type CountFacets = (search: CallSearch) => Promise<CallFacets>;

const SHOWN = 10;
/**
 * Limit on the distinct values that are counted for a facet. Senders choose their event types, so their number has no other
 * limit.
 */
const VALUES_MAX = 1000;
/**
 * Limit on the ids that are remembered, so that each call counts only once. Beyond this limit, a call that moves from one
 * list to another during the count may count twice.
 */
const SEEN_MAX = 20_000;

/** Counts all calls that a search finds. Only some of them are in memory at a time. */
export function createCountFacets(partitions: Partitions, { paths, patienceMs }: SearchOptions): CountFacets {
  const named = createFindNamed(partitions, paths);
  const sourcesOf = createAllSources(partitions);

  return async function count(given) {
    const asked = normalized(given);
    const limits = { signal: AbortSignal.timeout(patienceMs), isCut: false };
    const tallies = FACETS.map((name) => ({ name, counts: new Map<string, number>(), others: 0 }));
    const seen = new Set<string>();
    let matched = 0;
    const add = (call: FoundCall): void => {
      if (!isFound(call, asked) || seen.has(beginningOf(call))) return;
      if (seen.size < SEEN_MAX) seen.add(beginningOf(call));
      matched += 1;
      for (const tally of tallies) addTo(tally, call[tally.name]);
    };
    (await named(asked)).forEach(add);
    const sources = wholeId(asked) === undefined ? sourcesOf(asked, limits) : [];
    for (const source of sources) for await (const page of source) page.forEach(add);
    const facets = Object.fromEntries(tallies.map((tally) => [tally.name, toFacet(tally)]));
    return {
      matched,
      facets: facets as CallFacets["facets"],
      isComplete: !limits.isCut && !isUnlisted(asked) && !limits.signal.aborted,
      isUnlisted: isUnlisted(asked),
    };
  };
}

type Tally = { counts: Map<string, number>; others: number };

function addTo(tally: Tally, value: string | undefined): void {
  if (value === undefined) return;
  const count = tally.counts.get(value);
  if (count === undefined && tally.counts.size === VALUES_MAX) tally.others += 1;
  else tally.counts.set(value, (count ?? 0) + 1);
}

function toFacet({ counts, others }: Tally): Facet {
  const values = [...counts]
    .map(([value, count]) => ({ value, count }))
    .sort((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1));
  const unshown = values.slice(SHOWN).reduce((sum, { count }) => sum + count, others);
  return { values: values.slice(0, SHOWN), others: unshown };
}
