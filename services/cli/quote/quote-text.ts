import { z } from "zod";
import { toIso } from "../moment.ts";
import { plain } from "../plain.ts";

const option = z.object({
  network: z.string(),
  asset: z.string(),
  symbol: z.string(),
  amount: z.string(),
  pay_to: z.string(),
});

/** What of an engine's answer is shown. */
const answered = z.object({
  quote_details: z.object({
    price: z.string(),
    expiry: z.string().regex(/^\d{1,12}$/),
    inputs_hash: z.string(),
  }),
  operator_id: z.string(),
  settlement_options: z.array(option).default([]),
  x402_endpoint: z.string().optional(),
  quote_header: z.string(),
});

/** A quote for people, with the header that an x402 gateway takes. Throws where the answer is no quote. */
export function quoteText(json: unknown): string {
  const parsed = answered.safeParse(json);
  if (!parsed.success) throw new Error(`the answer is no quote: ${parsed.error.issues[0]?.path.join(".")}`);
  const { quote_details, operator_id, settlement_options, x402_endpoint, quote_header } = parsed.data;
  const { price, expiry, inputs_hash } = quote_details;
  const lines = [
    `price: ${price} wei, until ${toIso(Number(expiry) * 1000)}`,
    `inputs: ${inputs_hash}`,
    `signed by: ${operator_id}`,
    ...settlement_options.map(
      ({ network, asset, symbol, amount, pay_to }) =>
        `or: ${amount} units of ${symbol} (${asset}) on ${network}, to ${pay_to}`,
    ),
    ...(x402_endpoint === undefined ? [] : [`at: ${x402_endpoint}`]),
    `X-PLATFORM-QUOTE: ${quote_header}`,
  ];
  return lines.map((line) => `${plain(line)}\n`).join("");
}
