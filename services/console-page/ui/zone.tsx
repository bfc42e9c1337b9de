import { useEffect, useState } from "preact/hooks";

/** Time zone in which the page shows times. */
export type Zone = "local" | "UTC";

const KEY = "postern.zone";
const CHANGED = "zonechange";
const local = new Intl.DateTimeFormat().resolvedOptions().timeZone;

let chosen: Zone | undefined;

export function zone(): Zone {
  chosen ??= stored();
  return chosen;
}

function stored(): Zone {
  try {
    return localStorage.getItem(KEY) === "UTC" ? "UTC" : "local";
  } catch {
    return "local"; // the browser blocks storage for this site
  }
}

function chooseZone(next: Zone): void {
  chosen = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage, the choice holds until the page is loaded again.
  }
  window.dispatchEvent(new Event(CHANGED));
}

/** Hook that renders its component and the children again when the user changes the time zone. */
export function useZone(): void {
  const [, setShown] = useState(zone);
  useEffect(() => {
    const follow = () => setShown(zone());
    window.addEventListener(CHANGED, follow);
    return () => window.removeEventListener(CHANGED, follow);
  }, []);
}

/**
 * Returns a function that formats a time in the zone that the user has chosen. It creates the formatter for each zone
 * only once, because that is slow.
 */
export function inZone(options: Intl.DateTimeFormatOptions): (at: Date | number) => string {
  const formats: Partial<Record<Zone, Intl.DateTimeFormat>> = {};
  return (at) => {
    const name = zone();
    formats[name] ??= new Intl.DateTimeFormat(undefined, {
      ...options,
      timeZone: name === "UTC" ? name : local,
    });
    return formats[name].format(at);
  };
}

/** Returns the name of the browser's time zone, such as `Europe/Berlin (UTC+1)`. */
function localName(): string {
  const offset = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" })
    .formatToParts()
    .find(({ type }) => type === "timeZoneName")?.value;
  return local === "UTC" ? "UTC" : `${local} (${(offset ?? "").replace("GMT", "UTC")})`;
}

/** Switches all times on the page between UTC and the zone of the browser. */
export function ZoneSwitch() {
  const isUtc = zone() === "UTC";
  return (
    <button
      type="button"
      class="icon-button zone-switch"
      aria-pressed={isUtc}
      aria-label="Show times in UTC"
      title={isUtc ? "Times are in UTC" : `Times are in ${localName()}`}
      onClick={() => chooseZone(isUtc ? "local" : "UTC")}
    >
      UTC
    </button>
  );
}

export function ZoneName() {
  return <p class="muted small zone">Times: {zone() === "UTC" ? "UTC" : localName()}</p>;
}
