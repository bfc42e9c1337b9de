import { readFileSync } from "node:fs";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { inTime, JOB_PATH } from "../../fixtures/x402.ts";
import { type Payer, signPayment, type WireAuthorization } from "../../support/sign-payment.ts";

export type Recorded = {
  client: string;
  note: string;
  /** Target of the request, with its query. */
  path: string;
  header: string;
  payment: Omit<PaymentPayload, "payload" | "resource"> & {
    resource: { url: string };
    payload: Record<string, unknown> & { signature: string; authorization: WireAuthorization };
  };
  /** Offer in the 402 before the payment. */
  offer: PaymentRequirements;
};

/** Payments of real clients, as they sent them for a job on a local chain. */
export const RECORDED = JSON.parse(
  readFileSync(new URL("recorded-payments.json", import.meta.url), "utf8"),
) as Recorded[];
const RECORDED_PATH = "/x402/jobs/0/1";

/** Returns a request target in the recorded shape. */
export function targetOf({ path }: Recorded): string {
  return path.replace(RECORDED_PATH, JOB_PATH);
}

/** Makes a payment of today's offer with the members, the order and the spelling of the recorded payment. */
export async function inItsShape({ payment }: Recorded, offer: PaymentRequirements, payer: Payer) {
  const { signed } = await signPayment(offer, inTime({ payer }));
  const sent = structuredClone(payment);
  const isLower = sent.payload.authorization.from === sent.payload.authorization.from.toLowerCase();
  const spelt = (text: string) => (isLower && text.startsWith("0x") ? text.toLowerCase() : text);
  const authorization = Object.fromEntries(
    Object.entries(signed.authorization).map(([name, value]) => [name, spelt(value)]),
  );
  Object.assign(sent.payload.authorization, authorization);
  Object.assign(sent.extensions?.["transferAuthorization"] ?? {}, authorization);
  sent.payload.signature = signed.signature;
  const renew = (theirs: object, ours: object) =>
    Object.assign(theirs, Object.fromEntries(Object.entries(ours).filter(([name]) => name in theirs)));
  const { extra, ...core } = offer;
  renew(sent.accepted, core);
  // A client that returns some unknown members returns all of them.
  if ("quoteMac" in sent.accepted.extra) Object.assign(sent.accepted.extra, extra);
  else renew(sent.accepted.extra, extra);
  sent.resource.url = sent.resource.url.replace(RECORDED_PATH, JOB_PATH);
  return sent;
}
