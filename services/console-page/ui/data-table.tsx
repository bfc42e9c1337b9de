import type { ComponentChildren } from "preact";
import { directionOf, SortButton, type Sorting, type SortKey, sorted, useSorting } from "./sort.tsx";

export type Column<Item> = {
  title: string;
  cell: (item: Item) => ComponentChildren;
  /** Key by which a click on the heading sorts the rows. Without it, the heading is only text. */
  sortBy?: SortKey<Item>;
  /** Classes of the cells. `number` and `wide` also apply to the heading. A narrow window hides `wide` cells. */
  class?: string;
  /** A further class of a cell. */
  tone?: (item: Item) => string;
  /** The text of a cell's tooltip. */
  hint?: (item: Item) => string;
  /** Whether only screen readers get the heading. */
  isTitleHidden?: boolean;
  /** Whether the cell has no label in a narrow window, which shows each row as a card. */
  isUnlabelled?: boolean;
};

type Props<Item> = {
  columns: readonly Column<Item>[];
  items: readonly Item[];
  keyOf: (item: Item) => string;
  isChosen?: (item: Item) => boolean;
};

/** A table of items. In a narrow window each row is a card, whose first cell is its title. */
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
