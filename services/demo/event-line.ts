import type { LoggedEvent } from "../../shared/dev/process.ts";

/** On every line of a process, or the same for all calls of the demo. */
const LEFT_OUT: readonly string[] = ["level", "time", "service", "pid", "event", "origin"];

/** A logged event as `name key=value ...`, the fields as they were logged, call ids shortened. */
export function eventLine(event: LoggedEvent): string {
  const fields = Object.entries(event).filter(([key]) => !LEFT_OUT.includes(key));
  return [event.event, ...fields.map(([key, value]) => `${key}=${toText(value)}`)].join(" ");
}

/** Enough of a call id to tell it from the others of one demo. */
export function shortId(callId: string): string {
  return `${callId.slice(0, 10)}…`;
}

function toText(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  const text = value.replaceAll(/\bc_[0-9a-f]{32}\b/g, shortId);
  return /\s/.test(text) ? `"${text}"` : text;
}
