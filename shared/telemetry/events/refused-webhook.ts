/**
 * Log events of refused webhooks. The first is for a single request. The others count requests that were not logged one
 * by one, in the field `times`.
 */
const REFUSED = ["webhook.refused", "webhook.refusals_limited", "webhook.refusals_unlogged"] as const;

/** Returns a part of a table that has a row for each log event: every log event of a refused webhook gets `row`. */
export function forRefusedWebhook<Row>(row: Row): Readonly<Record<string, Row>> {
  return Object.fromEntries(REFUSED.map((event) => [event, row]));
}
