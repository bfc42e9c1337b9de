import type { ComponentChildren } from "preact";
import { NARROW, useMedia } from "./use-media.ts";

type Props = { isActive: boolean; onClear: () => void; children: ComponentChildren };

/** Bar with the fields that filter a list. In a narrow window they are hidden until the user opens them. */
export function FilterBar({ isActive, onClear, children }: Props) {
  const isNarrow = useMedia(NARROW);
  const fields = (
    <div class="filters">
      {children}
      {isActive && (
        <button type="button" class="quiet" onClick={onClear}>
          Clear filters
        </button>
      )}
    </div>
  );
  if (!isNarrow) return <search>{fields}</search>;
  return (
    <search>
      <details class="fold" open={isActive}>
        <summary>{isActive ? "Filters (active)" : "Filters"}</summary>
        {fields}
      </details>
    </search>
  );
}
