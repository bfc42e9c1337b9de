import type { PaymentRequirements } from "@x402/fetch";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { facts, plain } from "../text.ts";

/** What is known of a purchase so far. */
export type Purchase = {
  /** Of the job; absent if none of this name is sold. */
  url?: string;
  outcome?: string;
  error?: string;
  payer?: string;
  price?: string;
  offer?: PaymentRequirements;
  nonce?: string;
  /** Unix seconds. */
  validBefore?: number;
  status?: number;
  callId?: string | undefined;
  transaction?: string | undefined;
  receipt?: Receipt;
  statusUrl?: string | undefined;
  followedUrl?: string;
  /** The URL of the job's output, on the origin that was paid. */
  resultUrl?: string | undefined;
  resultToken?: string | undefined;
  state?: string | undefined;
  /** The signed payment, if it has to be sent again. */
  paymentHeaders?: Record<string, string>;
};

export function toJson(purchase: Purchase) {
  const { offer, validBefore } = purchase;
  return {
    outcome: purchase.outcome,
    error: purchase.error,
    url: purchase.url,
    price: purchase.price,
    amount: offer?.amount,
    asset: offer?.asset,
    network: offer?.network,
    pay_to: offer?.payTo,
    payer: purchase.payer,
    nonce: purchase.nonce,
    valid_before: validBefore === undefined ? undefined : toIso(validBefore * 1000),
    status: purchase.status,
    call_id: purchase.callId,
    transaction: purchase.transaction,
    receipt: purchase.receipt,
    state: purchase.state,
    status_url: purchase.statusUrl,
    followed_url: purchase.followedUrl,
    result_url: purchase.resultUrl,
    result_token: purchase.resultToken,
    payment_headers: purchase.paymentHeaders,
  };
}

const FIELDS = [
  "network",
  "asset",
  "symbol",
  "amount",
  "payer",
  "pay_to",
  "transaction",
  "quote_digest",
] as const;

/** The gateway's account of a settled payment; it may leave fields out. `amount` is in the token's smallest units. */
type Receipt = { [Field in (typeof FIELDS)[number]]?: string };

/** Reads the receipt in an answer's body, and takes what it lacks from the answer's payment response header. */
export function toReceipt(inBody: unknown, inHeader: object | undefined): Receipt {
  const given = { ...inHeader, ...(inBody as object | undefined) } as Readonly<Record<string, unknown>>;
  const known = FIELDS.flatMap((field) => {
    const value = given[field];
    return typeof value === "string" ? [[field, plain(value)]] : [];
  });
  return Object.fromEntries(known) as Receipt;
}

/** A receipt for people. An amount is in tokens if it is that of the price, whose decimals are known. */
export function receiptText(
  { symbol, asset, ...receipt }: Receipt,
  { price, offer }: Pick<Purchase, "price" | "offer">,
): string {
  const token = [symbol, asset].filter((part) => part !== undefined).join(" ");
  const rows: [string, string | undefined][] = [
    ["network", receipt.network],
    ["token", token === "" ? undefined : token],
    [
      "amount",
      receipt.amount === offer?.amount ? price : receipt.amount && `${receipt.amount} smallest units`,
    ],
    ["payer", receipt.payer],
    ["recipient", receipt.pay_to],
    ["transaction", receipt.transaction],
    ["quote digest", receipt.quote_digest],
  ];
  return `receipt:\n${facts(rows, "  ")}`;
}

/**
 * `refused`: nothing was paid. `unknown`: it may have been paid. `accepted`: it was paid, and the job has not ended in time. `injected`:
 * the job ran, and its output could not be fetched. `failed`: anything else, also a job that was paid and has failed.
 */
type Outcome = "refused" | "unknown" | "accepted" | "injected" | "failed";

/** Why a purchase ended without the job's output, as a sentence for the payer. */
export class PayFailure extends Error {
  override readonly name = "PayFailure";
  readonly outcome: Outcome;
  /** Where the payment can be followed, if an answer said so. */
  readonly statusUrl: string | undefined;

  constructor(
    outcome: Outcome,
    { reason, statusUrl, cause }: { reason: string; statusUrl?: string | undefined; cause?: unknown },
  ) {
    super(reason, { cause });
    this.outcome = outcome;
    this.statusUrl = statusUrl;
  }
}
