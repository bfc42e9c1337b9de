/** Says of a key what it must be, or that it is missing. */
export function mustBe(what: string, input: unknown): string {
  return `${input === undefined ? "is missing: it " : ""}must be ${what}`;
}
