/**
 * Returns how two different texts differ by one typing error: a letter added, omitted or replaced, or two neighbours
 * swapped. Undefined if they differ by more.
 */
export function typoBetween(a: string, b: string): "one letter" | "two swapped letters" | undefined {
  const most = Math.max(a.length, b.length);
  const least = Math.min(a.length, b.length);
  let before = 0;
  while (before < least && a[before] === b[before]) before += 1;
  let after = 0;
  while (after < least - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after += 1;
  const differ = most - before - after;
  if (differ <= 1) return "one letter";
  const isSwap = most === least && differ === 2 && a[before] === b[before + 1] && a[before + 1] === b[before];
  return isSwap ? "two swapped letters" : undefined;
}

/**
 * Limit on the length of compared words, because the time to compare them grows with the square of their length. Known
 * words are shorter.
 */
const WORD_MAX = 64;

/**
 * Returns the known words that an unknown word may mean. If some words differ from it only in case or separators,
 * returns these. Otherwise returns the words that begin with it. If no word begins with it, returns the words with the fewest
 * typing errors between them and the unknown word.
 */
export function wordsLike(word: string, known: readonly string[]): readonly string[] {
  if (word.length > WORD_MAX) return [];
  const bare = withoutForm(word);
  const typosMax = Math.min(3, Math.floor(bare.length / 3));
  const ranked = known.map((each) => ({ each, typos: editDistance(bare, withoutForm(each)) }));
  const fewest = Math.min(...ranked.map(({ typos }) => typos));
  const begun = bare.length < 3 ? [] : known.filter((each) => withoutForm(each).startsWith(bare));
  if (fewest > 0 && begun.length > 0) return begun;
  return ranked.filter(({ typos }) => typos === fewest && typos <= typosMax).map(({ each }) => each);
}

/** Returns the end of a message about an unknown word, such as `; did you mean a or b?`, or an empty text. */
export function didYouMean(
  word: string,
  known: readonly string[],
  written: (word: string) => string = String,
): string {
  const words = wordsLike(word, known).slice(0, 3).map(written);
  return words.length === 0 ? "" : `; did you mean ${words.join(" or ")}?`;
}

function withoutForm(word: string): string {
  return word.toLowerCase().replace(/[\s_.-]/g, "");
}

/** Counts the letters to add, omit or replace, and the neighbours to swap, that turn one word into the other. */
function editDistance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swaps = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = swaps ? at(before, j - 2) + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(at(row, j) + 1, at(next, j - 1) + 1, replaced, swapped));
    }
    [before, row] = [row, next];
  }
  return at(row, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
