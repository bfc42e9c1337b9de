/** Returns random numbers that are the same in every run (mulberry32). */
export function seeded(seed: number) {
  let state = seed;
  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    /** Returns true once in `times` calls on average. */
    onceIn: (times: number) => below(times) === 0,
    pick: <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item,
    shuffle: <Item>(items: readonly Item[]): Item[] =>
      items
        .map((item) => ({ item, rank: next() }))
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ item }) => item),
  };
}
