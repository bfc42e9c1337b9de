import { z } from "zod";
import { type CallFacets, FACETS } from "../call-search/facets.ts";
import { count } from "./view.ts";

/**
 * The most frequent values of one field of the calls (a facet). Each has the number of its calls, and `others` is
 * the number of calls with any other value.
 */
export const FacetView = z
  .object({
    name: z.enum(FACETS),
    values: z.array(z.object({ value: z.string(), count })),
    others: count,
  })
  .meta({ id: "CallFacet" });
export type FacetView = z.infer<typeof FacetView>;

export const CallFacetsView = z.object({
  /** Number of calls that match. */
  matched: count,
  facets: z.array(FacetView),
  /** False if some calls that may match were not counted. */
  is_complete: z.boolean(),
  /**
   * True if some calls in the requested state may be in no list that a search can read. They are found only by
   * their ids.
   */
  is_unlisted: z.boolean(),
});
export type CallFacetsView = z.infer<typeof CallFacetsView>;

export function toFacetsView({ matched, facets, isComplete, isUnlisted }: CallFacets): CallFacetsView {
  return {
    matched,
    facets: FACETS.map((name) => ({ name, ...facets[name] })),
    is_complete: isComplete,
    is_unlisted: isUnlisted,
  };
}
