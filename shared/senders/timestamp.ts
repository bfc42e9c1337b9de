import type { TimeUnit } from "./description.ts";

/** Digits are counted, so that none can move between the time and what stands beside it in the signed bytes. */
const FORMS: Readonly<Record<TimeUnit, RegExp>> = {
  s: /^\d{10}$/,
  ms: /^\d{13}$/,
  rfc3339: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/,
  go: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4} [A-Z]{1,5}(?: m=[+-]\d{1,15}\.\d{9})?$/,
};

/** Unix milliseconds; undefined unless the text has exactly this form. */
export function parseTime(text: string, unit: TimeUnit): number | undefined {
  if (!FORMS[unit].test(text)) return undefined;
  if (unit === "s") return Number(text) * 1000;
  if (unit === "ms") return Number(text);
  const ms = Date.parse(
    unit === "go" ? text.replace(/^(\S+) (\S+) ([+-]\d\d)(\d\d).*$/, "$1T$2$3:$4") : text,
  );
  return Number.isNaN(ms) ? undefined : ms;
}
