import { need, rejected, wellFormed } from "../../shared/webhook-auth/rejected.ts";
import { oneItem, type Sent } from "../../shared/webhook-auth/sent-signature.ts";
import type { Timestamp, TimeUnit } from "../../shared/webhook-auth/signature-scheme.ts";
import type { RequestValues } from "../../shared/webhook-auth/template.ts";

/** Returns the time that was sent with the signature. Undefined if it is in the body, which has not arrived yet. */
export function timeInHead(
  timestamp: Timestamp,
  values: RequestValues,
  sent: Sent | undefined,
): string | undefined {
  if (timestamp.header !== undefined) return need(values.header([timestamp.header.toLowerCase()]));
  const { pair } = timestamp;
  return pair === undefined ? undefined : wellFormed(sent?.pair(pair), () => oneItem(pair));
}

/** Throws `webhook.credential_rejected` unless the time has the right form and is within its window. */
export function checkTime(text: string, timestamp: Timestamp, now: number): void {
  const { unit, past_secs = Number.POSITIVE_INFINITY, future_secs = Number.POSITIVE_INFINITY } = timestamp;
  const time = wellFormed(parseTime(text, unit), () => `the time must be ${UNITS[unit]}`);
  const agoSecs = (now - time) / 1000;
  if (agoSecs > past_secs)
    throw rejected("stale", `signed ${secs(agoSecs)} before this gateway's clock; past_secs is ${past_secs}`);
  if (-agoSecs > future_secs)
    throw rejected(
      "early",
      `signed ${secs(-agoSecs)} after this gateway's clock; future_secs is ${future_secs}`,
    );
}

function secs(amount: number): string {
  return `${Math.ceil(amount)} s`;
}

const UNITS: Readonly<Record<TimeUnit, string>> = {
  s: "Unix seconds, 10 digits",
  ms: "Unix milliseconds, 13 digits",
  rfc3339: "a time of RFC 3339",
  go: "a time as Go's Time.String writes it",
};

/**
 * Accepted forms of a time. The number of digits is fixed, because the signed bytes may join the time and another value
 * without a separator. With any number of digits, a stranger could move a digit from one to the other, and the
 * signature would stay valid.
 */
const FORMS: Readonly<Record<TimeUnit, RegExp>> = {
  s: /^\d{10}$/,
  ms: /^\d{13}$/,
  rfc3339: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/,
  go: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [+-]\d{4} [A-Z]{1,5}(?: m=[+-]\d{1,15}\.\d{9})?$/,
};

/** Parses a time into Unix milliseconds. Undefined unless the text has exactly this form. */
function parseTime(text: string, unit: TimeUnit): number | undefined {
  if (!FORMS[unit].test(text)) return undefined;
  if (unit === "s") return Number(text) * 1000;
  if (unit === "ms") return Number(text);
  const ms = Date.parse(
    unit === "go" ? text.replace(/^(\S+) (\S+) ([+-]\d\d)(\d\d).*$/, "$1T$2$3:$4") : text,
  );
  return Number.isNaN(ms) ? undefined : ms;
}
