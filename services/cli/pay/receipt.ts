import { plain } from "../plain.ts";

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
export type Receipt = { [Field in (typeof FIELDS)[number]]?: string };

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
