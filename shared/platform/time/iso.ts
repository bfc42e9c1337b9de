/** Formats Unix milliseconds as ISO 8601 in UTC, as JSON does. */
export function toIso(at: number): string {
  return new Date(at).toISOString();
}
