const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

const DATE = /^\d{4}-\d{2}-\d{2}(?<time>T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?<zone>Z|[+-]\d{2}:\d{2})?)?$/;

/** A point in time: an ISO date, UTC unless it names a zone, or how long ago (`90s`, `30m`, `2h`, `7d`, `1w`). */
export function parseMoment(text: string, now: number): number | undefined {
  const ago = /^(?<count>\d{1,9})(?<unit>[smhdw])$/.exec(text)?.groups;
  if (ago) return now - Number(ago["count"]) * UNIT_MS[ago["unit"] as keyof typeof UNIT_MS];
  const date = DATE.exec(text)?.groups;
  if (!date) return undefined;
  const at = Date.parse(date["time"] && !date["zone"] ? `${text}Z` : text);
  return Number.isNaN(at) ? undefined : at;
}

export function toIso(at: number): string {
  return new Date(at).toISOString();
}
