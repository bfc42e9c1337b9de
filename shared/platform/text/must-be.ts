/** Returns the message that a configuration value must be `what`, or that it is missing. */
export function mustBe(what: string, input: unknown): string {
  return `${input === undefined ? "is missing: it " : ""}must be ${what}`;
}
