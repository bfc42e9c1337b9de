import type { PaymentRequirements } from "@x402/fetch";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { facts, plain } from "../text.ts";

/** The data of a purchase, as far as it is known. Each step adds its data. */
export type Purchase = {
  /** URL of the job. Absent if the gateway sells no job of this name. */
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
  /** The signed receipt, unchanged as in the answer, so that `postern receipt verify` can check it. */
  signedReceipt?: unknown;
  statusUrl?: string | undefined;
  followedUrl?: string;
  /** URL of the job's output, on the host that was paid. */
  resultUrl?: string | undefined;
  resultToken?: string | undefined;
  state?: string | undefined;
  /** The headers of the signed payment. Set only if the outcome is unknown, so that the user can send the same payment again. */
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
    signed_receipt: purchase.signedReceipt,
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

/** The gateway's receipt of a settled payment. Fields may be missing. `amount` is in the token's smallest unit. */
type Receipt = { [Field in (typeof FIELDS)[number]]?: string };

/** Reads the receipt in an answer's body. Missing fields come from the answer's payment response header. */
export function toReceipt(inBody: unknown, inHeader: object | undefined): Receipt {
  const given = { ...inHeader, ...(inBody as object | undefined) } as Readonly<Record<string, unknown>>;
  const known = FIELDS.flatMap((field) => {
    const value = given[field];
    return typeof value === "string" ? [[field, plain(value)]] : [];
  });
  return Object.fromEntries(known) as Receipt;
}

/**
 * Formats a receipt for people. Only the decimals of the price's token are known. So the amount is in whole tokens if
 * it equals the price, and otherwise in smallest units.
 */
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
 * `refused`: nothing was paid. `unknown`: the payment may have been made. `accepted`: the payment was made, but the job
 * has not ended in time. `injected`: the job ran, but its output could not be fetched. `failed`: any other failure,
 * even if the job was paid and has failed.
 */
type Outcome = "refused" | "unknown" | "accepted" | "injected" | "failed";

/** Thrown if a purchase ends without the job's output. The message is a text for the payer. */
export class PayFailure extends Error {
  override readonly name = "PayFailure";
  readonly outcome: Outcome;
  /** The URL of the payment's status, if an answer contained one. */
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
