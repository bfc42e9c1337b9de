/** The reply of a command WITHSCORES, a flat list in which members and scores alternate, as pairs. */
export function toScored(reply: readonly string[]): { member: string; score: number }[] {
  const pairs: { member: string; score: number }[] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    pairs.push({ member: String(reply[i]), score: Number(reply[i + 1]) });
  }
  return pairs;
}

/** Groups items into pages of `size`; only the last page may be shorter, and none is empty. */
export async function* inPages<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  size: number,
): AsyncGenerator<Item[]> {
  let page: Item[] = [];
  for await (const item of items) {
    page.push(item);
    if (page.length < size) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/** A reply in which names and values alternate, as that of HGETALL. */
export function toObject(flat: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) object[flat[i] as string] = flat[i + 1] as string;
  return object;
}
