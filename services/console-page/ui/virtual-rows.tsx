import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isNotForPage } from "./key-press.ts";

type Props = {
  label: string;
  /** Number of rows that are loaded. `total` is the number of rows in the whole list, if it is known. */
  count: number;
  total?: number | undefined;
  rowHeight: number;
  row: (index: number) => ComponentChildren;
  /** Called when the user has scrolled close to the last loaded row, so that more can be loaded. */
  onEnd: () => void;
};

/** Number of rows that are drawn above and below the visible ones, so that fast scrolling shows no gap. */
const AHEAD = 12;

/**
 * A list that can be very long, because the document contains only the rows in the window. The list scrolls with the
 * whole page, and is no scrolling box in it. The keys `j` and `k` move the focus to the first link in the next and the
 * previous row. `x` selects the row with the focus.
 */
export function VirtualRows({ label, count, total, rowHeight, row, onEnd }: Props) {
  const box = useRef<HTMLUListElement>(null);
  const [{ from, to }, setRange] = useState({ from: 0, to: 40 });

  const measure = useCallback(() => {
    const top = box.current?.getBoundingClientRect().top ?? 0;
    const first = Math.max(0, Math.floor(-top / rowHeight) - AHEAD);
    const last = Math.ceil((window.innerHeight - top) / rowHeight) + AHEAD;
    setRange((before) => (before.from === first && before.to === last ? before : { from: first, to: last }));
  }, [rowHeight]);

  useLayoutEffect(measure, [measure, count]);
  useEffect(() => {
    window.addEventListener("scroll", measure, { passive: true });
    window.addEventListener("resize", measure);
    return () => {
      window.removeEventListener("scroll", measure);
      window.removeEventListener("resize", measure);
    };
  }, [measure]);
  useEffect(() => {
    if (to >= count) onEnd();
  }, [to, count, onEnd]);
  useRowKeys(box, count, rowHeight);

  const shown = Array.from({ length: Math.max(0, Math.min(to, count) - from) }, (_, i) => from + i);
  return (
    <ul class="rows" aria-label={label} ref={box} style={{ height: `${count * rowHeight}px` }}>
      {shown.map((index) => (
        <li
          class="row"
          key={index}
          data-index={index}
          aria-posinset={index + 1}
          aria-setsize={total ?? -1}
          style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
        >
          {row(index)}
        </li>
      ))}
    </ul>
  );
}

function useRowKeys(box: { current: HTMLElement | null }, count: number, rowHeight: number): void {
  useEffect(() => {
    const rowAt = (index: number) => box.current?.querySelector(`[data-index="${index}"]`);
    const focusRow = (index: number, again = true): void => {
      if (index < 0 || index >= count) return;
      const row = rowAt(index);
      const link = row?.querySelector("a");
      link?.focus({ preventScroll: true });
      row?.scrollIntoView({ block: "nearest" });
      if (link != null || !again) return;
      // The row is not in the document yet. Scroll to it, wait until it is drawn, and try once more.
      const top = (box.current?.getBoundingClientRect().top ?? 0) + window.scrollY + index * rowHeight;
      window.scrollTo(0, top - window.innerHeight / 2);
      requestAnimationFrame(() => requestAnimationFrame(() => focusRow(index, false)));
    };
    const select = (index: number): void =>
      rowAt(index)?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
    const press = (event: KeyboardEvent): void => {
      if (isNotForPage(event)) return;
      const index = focusedRow(box.current);
      const keys: Record<string, () => void> = {
        j: () => focusRow(index + 1),
        k: () => focusRow(index - 1),
        x: () => select(index),
      };
      const act = keys[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [box, count, rowHeight]);
}

/** Returns the index of the row that has the focus; -1 if no row has it. */
function focusedRow(box: HTMLElement | null): number {
  const row = document.activeElement?.closest<HTMLElement>("[data-index]");
  return row != null && box?.contains(row) === true ? Number(row.dataset["index"]) : -1;
}
