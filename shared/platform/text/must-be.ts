/** Formats the message that a key must be `what`, or is missing. */
export function mustBe(what: string, input: unknown): string {
  return `${input === undefined ? "is missing: it " : ""}must be ${what}`;
}
