const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();

/** The viewer's zone, as `Europe/Berlin (UTC+1)`. */
export function zoneName(): string {
  const offset = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" })
    .formatToParts()
    .find(({ type }) => type === "timeZoneName")?.value;
  return timeZone === "UTC" ? "UTC" : `${timeZone} (${(offset ?? "").replace("GMT", "UTC")})`;
}
