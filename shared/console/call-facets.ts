import { z } from "zod";
import { type CallFacets, FACETS } from "../call-search/facets.ts";
import { count } from "./view.ts";

/** How many calls have a value, for the most frequent ones, and how many have another. */
export const FacetView = z
  .object({
    name: z.enum(FACETS),
    values: z.array(z.object({ value: z.string(), count })),
    others: count,
  })
  .meta({ id: "CallFacet" });
export type FacetView = z.infer<typeof FacetView>;

export const CallFacetsView = z.object({
  /** How many calls match. */
  matched: count,
  facets: z.array(FacetView),
  /** False if not every call that may match was counted. */
  is_complete: z.boolean(),
  /** True if calls in the state that is asked for may be found only by their ids. */
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
