import { useState } from "preact/hooks";

/** Returns the text or number by which an item is sorted. */
export type SortKey<Item> = (item: Item) => string | number;

export type Sorting = { by: string; isDescending: boolean };

/** Keeps by which column a table is sorted, by the column's heading. Choosing the same heading again reverses the order. */
export function useSorting(): [Sorting | undefined, (by: string) => void] {
  const [sorting, setSorting] = useState<Sorting | undefined>();
  const sort = (by: string) =>
    setSorting((before) => ({ by, isDescending: before?.by === by ? !before.isDescending : true }));
  return [sorting, sort];
}

export function sorted<Item>(
  items: readonly Item[],
  key: SortKey<Item> | undefined,
  sorting: Sorting | undefined,
): readonly Item[] {
  if (key === undefined || sorting === undefined) return items;
  const sign = sorting.isDescending ? -1 : 1;
  return [...items].sort((a, b) => sign * compare(key(a), key(b)));
}

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

type Props = { title: string; sorting: Sorting | undefined; onSort: (by: string) => void };

/** Heading of a column as a button that sorts the rows by this column. */
export function SortButton({ title, sorting, onSort }: Props) {
  const isChosen = sorting?.by === title;
  return (
    <button type="button" class="sort" onClick={() => onSort(title)}>
      {title}
      <span aria-hidden="true">{isChosen ? (sorting.isDescending ? " ↓" : " ↑") : ""}</span>
      {isChosen && <span class="hidden">, sorted {directionOf(sorting)}</span>}
    </button>
  );
}

export function directionOf({ isDescending }: Sorting): "ascending" | "descending" {
  return isDescending ? "descending" : "ascending";
}
