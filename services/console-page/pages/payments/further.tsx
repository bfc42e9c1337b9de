import { Notice } from "../../ui/notice.tsx";
import type { FoundPayments, Path } from "./use-found.ts";

/**
 * Says that a search has not covered all payments and why, with a button that continues it. Shows nothing if the search
 * is complete.
 */
export function SearchContinuation<P extends Path>({ of: all }: { of: readonly FoundPayments<P>[] }) {
  const further = all.flatMap(({ lookFurther }) => lookFurther ?? []);
  const refused = all.find((each) => each.refused !== undefined && !each.isLooking)?.refused;
  if (further.length === 0) return null;
  const lookFurther = () => {
    for (const look of further) look();
  };
  if (refused !== undefined) {
    const again = { name: "Try again", run: lookFurther };
    return (
      <Notice tone="bad" title="Older payments could not be read" action={again}>
        {refused.detail}
      </Notice>
    );
  }
  return (
    <p class="muted further">
      Older payments have not been searched yet.{" "}
      <button type="button" onClick={lookFurther}>
        Search older payments
      </button>
    </p>
  );
}
