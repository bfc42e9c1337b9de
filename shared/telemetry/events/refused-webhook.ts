/** Log events of refused webhooks: for single requests, and for requests that are only counted (`times`). */
const REFUSED = ["webhook.refused", "webhook.refusals_limited", "webhook.refusals_unlogged"] as const;

/** Maps the name of each log event of a refused webhook to `row`. */
export function forRefusedWebhook<Row>(row: Row): Readonly<Record<string, Row>> {
  return Object.fromEntries(REFUSED.map((event) => [event, row]));
}
