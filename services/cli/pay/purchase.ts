import type { PaymentRequirements } from "@x402/fetch";
import { plain, toIso } from "../text.ts";

/** What is known of a purchase, as far as it came. */
export type Purchase = {
  url: string;
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
  state?: string | undefined;
  /** The signed payment, where it has to be sent again. */
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

/** What the gateway says of the payment that settled, as far as it says it. `amount` is in the token's smallest units. */
type Receipt = { [Field in (typeof FIELDS)[number]]?: string };

/** The receipt in an answer's body; what is not in it is taken from the answer's payment response header. */
export function toReceipt(inBody: unknown, inHeader: object | undefined): Receipt {
  const said = { ...inHeader, ...(inBody as object | undefined) } as Readonly<Record<string, unknown>>;
  const known = FIELDS.flatMap((field) => {
    const value = said[field];
    return typeof value === "string" ? [[field, plain(value)]] : [];
  });
  return Object.fromEntries(known) as Receipt;
}

export function receiptText({ symbol, asset, ...receipt }: Receipt): string {
  const token = [symbol, asset].filter((part) => part !== undefined).join(" ");
  const rows: [string, string | undefined][] = [
    ["network", receipt.network],
    ["token", token === "" ? undefined : token],
    ["amount", receipt.amount && `${receipt.amount} (smallest units)`],
    ["payer", receipt.payer],
    ["paid to", receipt.pay_to],
    ["transaction", receipt.transaction],
    ["quote", receipt.quote_digest],
  ];
  const known = rows.filter(([, value]) => value !== undefined);
  const lines = known.map(([name, value]) => `  ${name.padEnd("transaction".length)}  ${value}\n`);
  return `receipt:\n${lines.join("")}`;
}

type Details = {
  outcome: "refused" | "unknown" | "failed";
  /** Where the payment can be followed, if an answer said so. */
  statusUrl?: string | undefined;
  cause?: unknown;
};

/** Why a purchase ended without its job, as a sentence for the one who pays. */
export class PayFailure extends Error {
  override readonly name = "PayFailure";
  readonly outcome: Details["outcome"];
  readonly statusUrl: string | undefined;

  constructor(message: string, { outcome, statusUrl, ...rest }: Details) {
    super(message, rest);
    this.outcome = outcome;
    this.statusUrl = statusUrl;
  }
}
