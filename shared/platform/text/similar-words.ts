/**
 * How two different texts are one slip of the hand apart: a letter added, left out or replaced, or two neighbours that
 * changed places. Undefined if they are further apart.
 */
export function slipBetween(a: string, b: string): "one letter" | "two swapped letters" | undefined {
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

/** Nobody means a word of another length, and the comparison takes time by the square of it. */
const WORD_MAX = 64;

/**
 * The known words that a misspelt one may stand for: those that differ from it only in case or in separators, else those that
 * begin with it, else those with the fewest slips.
 */
export function wordsLike(word: string, known: readonly string[]): readonly string[] {
  if (word.length > WORD_MAX) return [];
  const bare = withoutForm(word);
  const slipsMax = Math.min(3, Math.floor(bare.length / 3));
  const ranked = known.map((each) => ({ each, slips: slipsIn(bare, withoutForm(each)) }));
  const fewest = Math.min(...ranked.map(({ slips }) => slips));
  const begun = bare.length < 3 ? [] : known.filter((each) => withoutForm(each).startsWith(bare));
  if (fewest > 0 && begun.length > 0) return begun;
  return ranked.filter(({ slips }) => slips === fewest && slips <= slipsMax).map(({ each }) => each);
}

/** The end of a message about a word that is not known: `; did you mean a or b?`, or nothing. */
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

/** Letters to add, to leave out, to replace, and neighbours to swap, that make one word of the other. */
function slipsIn(a: string, b: string): number {
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
