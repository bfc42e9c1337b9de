/** Quotes a text as one word of a POSIX shell. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Joins words to a line that a POSIX shell splits into the same words. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}

/** Returns the words of a command line for these options. Options without a value are left out. */
export function optionWords(options: Readonly<Record<`--${string}`, string | undefined>>): string[] {
  return Object.entries(options).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
}
