import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { withOperations } from "../with-operations.ts";
import { foundText, type ListOptions, toSearch } from "./list.ts";

type FacetValue = { facet: string; value: string | null; count: number };

/**
 * `postern calls list --facets`: prints counts of the matching calls instead of a list. A facet is a property such as
 * the state or the job. For each value of each facet, the command prints how many matching calls have it. At the end it
 * prints the number of all matching calls.
 */
export function countFacets(deps: ProgramDeps, options: ListOptions): Promise<number> {
  return withOperations(deps, options, async ({ countCallFacets }) => {
    const { matched, facets, ...is } = await countCallFacets(toSearch(options));
    const listing = createListing<FacetValue>(deps, {
      columns: [{ heading: "FACET" }, { heading: "VALUE" }, { heading: "CALLS", alignRight: true }],
      toCells: ({ facet, value, count }) => [facet, value ?? "(others)", String(count)],
      toJson: (each) => each,
      toName: ({ facet, value }) => `${facet}=${value ?? "(others)"}`,
    });
    for (const { name: facet, values, others } of facets) {
      for (const each of values) listing.add({ facet, ...each });
      if (others > 0) listing.add({ facet, value: null, count: others });
    }
    listing.end(
      foundText({ shown: matched, next: null, isComplete: is.is_complete, isUnlisted: is.is_unlisted }),
    );
    return EXIT.ok;
  });
}
