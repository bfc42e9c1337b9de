/*
 * Free text of a search for calls. It matches the beginning of a call id, delivery id, payer or transaction. It also matches a
 * whole job key, or any part of the event type, the endpoint or the error. The search ignores case and has no operators.
 */

const LENGTH_MAX = 200;

/**
 * Matches a word such as `state:failed`. Other programs' search boxes take it as an operator, so a user may expect the same
 * here.
 */
const OPERATOR = /^(state|origin|endpoint|job|event|code|payer|transaction|since|until):\S/i;

/** Returns why a text cannot be searched for; undefined if it can. */
export function problemOfText(text: string): string | undefined {
  const [, name] = OPERATOR.exec(text) ?? [];
  if (text.trim() === "")
    return "must not be empty: give the start of an id, or a part of an event type, endpoint or error";
  if (text.length > LENGTH_MAX)
    return `must have at most ${LENGTH_MAX} characters: the start of an id or error is enough`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text))
    return "must be one line of plain text: remove tabs, line breaks and control characters";
  if (/^[*%]|[*%]$/.test(text))
    return "must be plain text without wildcards: the start of an id, or a part of an error, is enough";
  if (name !== undefined)
    return `must be plain text without operators: use the filter ${name.toLowerCase()} instead of "${name}:"`;
  return undefined;
}

/** Texts of a call that a search compares. */
type Texts = {
  [Name in "deliveryId" | "payer" | "transaction" | "event" | "endpoint" | "job" | "code" | "reason"]:
    | string
    | undefined;
} & { id: string };

/** Returns whether the text matches the call. */
export function hasText(call: Texts, text: string): boolean {
  const wanted = text.toLowerCase();
  const { id, deliveryId, payer, transaction, event, endpoint, job, code, reason } = call;
  const error = code === undefined ? reason : `${code}: ${reason ?? ""}`;
  return (
    job === wanted ||
    [id, deliveryId, payer, transaction].some((each) => each?.toLowerCase().startsWith(wanted)) ||
    [event, endpoint, error].some((each) => each?.toLowerCase().includes(wanted))
  );
}
