import { expect, test } from "vitest";
import { mergedPage } from "../../../shared/redis/merge.ts";

const isBefore = (a: number, b: number) => a > b;

/** A page of a partition that reads at most `readMax` items. Even items match. */
function pageOf(partition: readonly number[], after: number, limit: number, readMax: number) {
  const read = partition.filter((item) => item < after).slice(0, readMax);
  const matching = read.filter((item) => item % 2 === 0);
  const isCut = matching.length > limit;
  const hasMore = partition.some((item) => item < (read.at(-1) ?? Number.NEGATIVE_INFINITY));
  const items = matching.slice(0, limit);
  return { items, next: isCut ? items.at(-1) : hasMore ? read.at(-1) : undefined };
}

test.each([
  [1, 3],
  [4, 2],
  [5, 7],
  [9, 1],
])(
  "pages of %i, of partitions that read %i items at a time, have each item once and in order",
  (limit, readMax) => {
    const all = Array.from({ length: 200 }, (_, n) => 200 - n);
    // The second partition has most of the items that match, and the first one only a few.
    const [first, second] = [
      all.filter((n) => n % 2 === 1 || n % 20 === 0),
      all.filter((n) => n % 2 === 0 && n % 20 !== 0),
    ];
    const seen: number[] = [];
    let after: number | undefined = Number.POSITIVE_INFINITY;
    for (let pages = 0; after !== undefined && pages < 1000; pages++) {
      const read = [first, second].map((partition) => pageOf(partition, after as number, limit, readMax));
      const page = mergedPage(read, { limit, isBefore, placeOf: (item: number) => item });
      expect(page.items.length).toBeLessThanOrEqual(limit);
      seen.push(...page.items);
      after = page.next;
    }
    expect(seen).toEqual(all.filter((n) => n % 2 === 0));
  },
);
