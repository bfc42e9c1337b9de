import { systemClock } from "../../shared/platform/time/clock.ts";

/** Functions that format values for people and for scripts. */

/** Makes text from strangers safe to print: replaces line ends and characters that control a terminal by spaces. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]+/gu, " ");
}

/** Formats a number with its noun: `1 call`, `2 calls`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/**
 * Characters that JSON permits unescaped, but that a terminal would treat as commands, line ends or changes of the
 * text's direction.
 */
const UNSAFE_IN_JSON = /[\x7f-\x9f\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

/** Formats a JSON value on one line, without characters that control a terminal. */
export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value).replace(
    UNSAFE_IN_JSON,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${text}\n`;
}

/** Formats each fact on one line: its name and its value, with the values aligned. Leaves out facts without a value. */
export function facts(entries: readonly (readonly [string, string | undefined])[], indent = ""): string {
  const known = entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${indent}${name.padEnd(width)}  ${plain(value)}\n`).join("");
}

/** Formats a heading with content below it. Empty if there is no content. */
export function section(heading: string, content: string): string {
  return content === "" ? "" : `\n${heading}\n${content}`;
}

/** Formats a time of a JSON answer without milliseconds. */
export function toSeconds(iso: string): string {
  return iso.replace(/\.\d+Z$/, "Z");
}

/** The reason in the audit log for an act without `--reason`. */
export const NO_REASON = "no reason given";

/** Formats a duration in its two largest units: `2h5m`. */
export function duration(ms: number): string {
  const secs = Math.floor(ms / 1000);
  if (secs < 60) return `${secs}s`;
  if (secs < 3600) return `${Math.floor(secs / 60)}m${secs % 60}s`;
  if (secs < 86_400) return `${Math.floor(secs / 3600)}h${Math.floor((secs % 3600) / 60)}m`;
  return `${Math.floor(secs / 86_400)}d${Math.floor((secs % 86_400) / 3600)}h`;
}

/** Formats how long ago a time was: `2h5m`. */
export function age(iso: string, now = systemClock()): string {
  return duration(Math.max(0, now - Date.parse(iso)));
}

/** Formats a time with its distance from now: `2026-01-31T18:00:00.000Z (2h5m ago)`. */
export function withAge(iso: string, now = systemClock()): string {
  const ms = Date.parse(iso) - now;
  return `${iso} (${ms > 0 ? `in ${duration(ms)}` : `${age(iso, now)} ago`})`;
}

/** Converts an amount in a token's smallest units to tokens: 3200000 with 6 decimals is 3.2. */
export function inTokens(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** Converts a decimal number of tokens to smallest units, rounded down. */
export function toUnits(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".");
  return BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}
