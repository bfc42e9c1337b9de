import type { ComponentChildren } from "preact";
import { directionOf, SortButton, type Sorting, type SortKey, sorted, useSorting } from "./sort.tsx";

export type Column<Item> = {
  title: string;
  cell: (item: Item) => ComponentChildren;
  /** Returns the key by which a click on the heading sorts the rows. If undefined, the heading is only text. */
  sortBy?: SortKey<Item>;
  /**
   * CSS classes of the column's cells. The heading also gets `number` and `wide` from them. Cells with `wide` are
   * hidden in a narrow window.
   */
  class?: string;
  /** Returns a further CSS class for the cell of an item. */
  tone?: (item: Item) => string;
  /** Returns the text of the tooltip for the cell of an item. */
  hint?: (item: Item) => string;
  /** Whether the heading is invisible, and only read by screen readers. */
  isTitleHidden?: boolean;
  /**
   * Whether the cell has no label in a narrow window. There each row is a card, in which other cells have the column's
   * title as a label.
   */
  isUnlabelled?: boolean;
};

type Props<Item> = {
  columns: readonly Column<Item>[];
  items: readonly Item[];
  keyOf: (item: Item) => string;
  isChosen?: (item: Item) => boolean;
};

/** A table with one row for each item. In a narrow window each row is shown as a card, with its first cell as the title. */
export function DataTable<Item>({ columns, items, keyOf, isChosen }: Props<Item>) {
  const [sorting, sort] = useSorting();
  const key = columns.find(({ title }) => title === sorting?.by)?.sortBy;
  return (
    <div class="table-box">
      <table class="stack">
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                scope="col"
                key={column.title}
                class={headClassOf(column)}
                aria-sort={sorting?.by === column.title ? directionOf(sorting) : undefined}
              >
                <Heading column={column} sorting={sorting} onSort={sort} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(items, key, sorting).map((item) => (
            <tr key={keyOf(item)} class={isChosen?.(item) ? "chosen" : undefined}>
              {columns.map((column, index) => (
                <td
                  key={column.title}
                  class={classOf(column, item)}
                  data-label={index === 0 ? undefined : labelOf(column)}
                  title={column.hint?.(item)}
                >
                  {column.cell(item)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type HeadingProps<Item> = {
  column: Column<Item>;
  sorting: Sorting | undefined;
  onSort: (by: string) => void;
};

function Heading<Item>({ column: { title, isTitleHidden, sortBy }, sorting, onSort }: HeadingProps<Item>) {
  if (isTitleHidden) return <span class="hidden">{title}</span>;
  if (sortBy === undefined) return title;
  return <SortButton {...{ title, sorting, onSort }} />;
}

function headClassOf({ class: classes = "" }: Pick<Column<never>, "class">): string | undefined {
  return classes.match(/\b(?:number|wide)\b/g)?.join(" ");
}

function classOf<Item>({ class: classes, tone }: Column<Item>, item: Item): string | undefined {
  const all = [classes, tone?.(item)].filter(Boolean);
  return all.length === 0 ? undefined : all.join(" ");
}

function labelOf<Item>({ title, class: classes, isTitleHidden, isUnlabelled }: Column<Item>) {
  return isTitleHidden || isUnlabelled || classes?.includes("wide") ? undefined : title;
}
