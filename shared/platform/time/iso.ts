/** Unix milliseconds as ISO 8601 in UTC, as JSON has them. */
export function toIso(at: number): string {
  return new Date(at).toISOString();
}
