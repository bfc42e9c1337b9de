/** The text as one word of a POSIX shell, whatever it holds. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Words as a line that a POSIX shell reads as these words. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}

/** The options that have a value, as words of a command line. */
export function optionWords(options: Readonly<Record<`--${string}`, string | undefined>>): string[] {
  return Object.entries(options).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]));
}
