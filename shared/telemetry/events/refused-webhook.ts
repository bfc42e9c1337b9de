/** The events of refused webhooks: one by one, and those counted together without a line of their own (`times`). */
const REFUSED = ["webhook.refused", "webhook.refusals_limited", "webhook.refusals_unlogged"] as const;

/** A table in which each of these events has the same row. */
export function forRefusedWebhook<Row>(row: Row): Readonly<Record<string, Row>> {
  return Object.fromEntries(REFUSED.map((event) => [event, row]));
}
