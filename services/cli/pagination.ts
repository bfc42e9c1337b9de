/** Yields the items of all pages. Each page is read only when needed, from the cursor of the previous one. */
export async function* pagesOf<Page extends { next: string | null }, Item>(
  read: (cursor: string | undefined) => Promise<Page>,
  itemsOf: (page: Page) => readonly Item[],
): AsyncGenerator<Item> {
  let cursor: string | undefined;
  for (;;) {
    const page: Page = await read(cursor);
    yield* itemsOf(page);
    if (page.next === null) return;
    cursor = page.next;
  }
}
