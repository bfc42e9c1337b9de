import type { PageAsked } from "../../../shared/console/cursor.ts";

/** As many as an answer of the console has. */
const AT_ONCE = 200;

/** The items of all pages, each from where the one before ended; a page is read once it is needed. */
export async function* pagesOf<Item>(
  read: (page: PageAsked) => Promise<{ items: readonly Item[]; next: string | null }>,
): AsyncGenerator<Item> {
  let next: string | null = null;
  do {
    const page = await read({ limit: AT_ONCE, ...(next !== null && { cursor: next }) });
    yield* page.items;
    next = page.next;
  } while (next !== null);
}
