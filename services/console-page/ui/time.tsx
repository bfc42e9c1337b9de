import { useEffect, useState } from "preact/hooks";
import { serverTime } from "../api/server-time.ts";
import { inZone, zone } from "./zone.tsx";

/** A time: text in ISO 8601, as in the API, or a number in unix ms. */
export type When = string | number;

const clock = inZone({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
/** Writes `14:05`. */
export const minute = inZone({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = inZone({ day: "numeric", month: "short" });
const dayOfYear = inZone({ day: "numeric", month: "short", year: "numeric" });
const year = inZone({ year: "numeric" });
/** Writes `Sat, 28 Nov 2026`. */
export const weekday = inZone({ weekday: "short", day: "numeric", month: "short", year: "numeric" });

type TimeProps = {
  at: When;
  form?: "short" | "exact" | "clock";
  /**
   * Whether the time may be in the future, as that of a deadline. A time of another kind that seems to be in the future
   * is shown as `now`, because only the clocks differ.
   */
  mayBeAhead?: boolean | undefined;
};

/**
 * Shows a time in the time zone that the user has chosen. The short form has the time of day, and also the day unless
 * it is today. The exact value is in the tooltip.
 */
export function Time({ at, form = "short", mayBeAhead = false }: TimeProps) {
  const date = new Date(at);
  const iso = date.toISOString();
  const aheadMs = mayBeAhead ? date.getTime() - serverTime() : 0;
  const words = aheadMs < 1000 ? ago(date.getTime(), serverTime()) : `in ${inOneUnit(aheadMs)}`;
  return (
    <time dateTime={iso} title={`${iso}, ${words}`}>
      {form === "short"
        ? shortly(date)
        : `${form === "exact" ? `${dayOfYear(date)}, ` : ""}${clockWithMs(date)}`}
    </time>
  );
}

/** Shows how long ago something happened, and keeps it up to date. The exact time is in the title. */
export function Ago({ at }: { at: When }) {
  const now = serverTime(useNow());
  const date = new Date(at);
  return (
    <time
      dateTime={date.toISOString()}
      title={`${date.toISOString()}, ${shortly(date)} ${zone() === "UTC" ? "UTC" : "local time"}`}
    >
      {ago(date.getTime(), now)}
    </time>
  );
}

/** Returns the browser's time, and renders the component again every `everyMs`. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export function shortly(date: Date, now = new Date(serverTime())): string {
  if (dayOfYear(date) === dayOfYear(now)) return clock(date);
  const withYear = year(date) === year(now) ? day : dayOfYear;
  return `${withYear(date)}, ${clock(date)}`;
}

function clockWithMs(date: Date): string {
  return `${clock(date)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/**
 * Writes how long ago a time was, such as `5 min ago`. If the clocks of the servers differ, an event may seem to be in
 * the future. The text is `now` then.
 */
export function ago(at: number, now: number): string {
  const ms = now - at;
  return ms < 1000 ? "now" : `${inOneUnit(ms)} ago`;
}

function inOneUnit(ms: number): string {
  const [name, size] = UNITS.find(([, each]) => ms >= each) ?? ["s", 1000];
  return `${Math.floor(ms / size)} ${name}`;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
] as const;

/** Writes a duration in at most two units: `850 ms`, `4.2 s`, `3 min 10 s`, `2 d 4 h`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const secs = Math.round(ms / 1000);
  if (secs < 3600) return twoUnits(Math.floor(secs / 60), "min", secs % 60, "s");
  const mins = Math.floor(secs / 60);
  if (mins < 1440) return twoUnits(Math.floor(mins / 60), "h", mins % 60, "min");
  const hours = Math.floor(mins / 60);
  return twoUnits(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** Writes a duration in one unit, for narrow places: `12 min`. */
export function shortDuration(ms: number): string {
  return ms < 60_000 ? duration(ms) : inOneUnit(ms);
}

function twoUnits(large: number, name: string, small: number, smallName: string): string {
  return small === 0 ? `${large} ${name}` : `${large} ${name} ${small} ${smallName}`;
}
