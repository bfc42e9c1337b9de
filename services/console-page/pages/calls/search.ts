import type { Query } from "../../url-fragment.ts";

/**
 * What a text that somebody has pasted is: a call id, a transaction, a payer's address, an endpoint's path, a job, and otherwise the
 * id of a delivery.
 */
export function meaningOf(text: string): Query {
  const given = text.trim();
  if (given === "") return {};
  if (/^c_[0-9a-f]+$/i.test(given)) return { id: given };
  if (/^0x[0-9a-f]{64}$/i.test(given)) return { transaction: given.toLowerCase() };
  if (/^0x[0-9a-f]{40}$/i.test(given)) return { payer: given.toLowerCase() };
  if (given.startsWith("/")) return { endpoint: given };
  if (/^\d+\/\d+$/.test(given)) return { job: given };
  return { delivery_id: given };
}

const NAMES: Readonly<Record<string, string>> = {
  id: "call id",
  transaction: "transaction",
  payer: "payer",
  endpoint: "endpoint",
  job: "job",
  delivery_id: "delivery id",
};

/** As what a text is searched for, in words. */
export function takenFor(text: string): string | undefined {
  const [name] = Object.keys(meaningOf(text));
  return name === undefined ? undefined : NAMES[name];
}
