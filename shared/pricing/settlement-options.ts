import { type JobIds, jobKey } from "../job-call/job-ids.ts";
import type { Offer } from "./price-list.ts";

/** A token as far as its payer needs it. */
export type SettlementToken = { network: string; asset: string; symbol: string; payTo: string };

/** One way to pay for a job off chain: `amount` in the token's smallest units. */
export type SettlementOption = {
  network: string;
  asset: string;
  symbol: string;
  amount: string;
  pay_to: string;
  scheme: "exact";
};

/** An offer as the gateway's price list and a pricing engine's answer both write it. */
export function toSettlementOption({ token, amount }: Offer<SettlementToken>): SettlementOption {
  const { network, asset, symbol, payTo } = token;
  return { network, asset, symbol, amount: String(amount), pay_to: payTo, scheme: "exact" };
}

/** Where a job is paid for: `endpoint` is the gateway's public URL. */
export function settlementEndpoint(endpoint: string, ids: { [Id in keyof JobIds]: number | bigint }): string {
  return `${endpoint}/x402/jobs/${jobKey(ids)}`;
}
