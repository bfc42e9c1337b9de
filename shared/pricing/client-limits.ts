import type { PriceList } from "../config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../config/x402-toml.ts";
import { KNOWN_TOKENS } from "./known-tokens.ts";
import { jobsOnSale, tokenAmount } from "./prices.ts";

type Shop = Pick<X402Toml, "accepted_tokens" | "job_policies" | "default_invocation_mode">;

/**
 * Warns of what `@x402/fetch` refuses to pay unless its buyer says otherwise: tokens that it does not know, and more than a dollar in one
 * that it knows.
 */
export function clientWarnings(x402: Shop, prices: PriceList): string[] {
  const sold = jobsOnSale(x402, prices).map(({ priceWei }) => priceWei);
  if (sold.length === 0) return [];
  return x402.accepted_tokens.flatMap((token, index) => {
    const { asset, network, symbol } = token;
    const decimals = KNOWN_TOKENS[`${network}/${asset.toLowerCase()}`];
    const warning = decimals === undefined ? unknown(token) : tooDear(token, sold, 10n ** BigInt(decimals));
    return warning === undefined ? [] : [`accepted_tokens[${index}]: ${symbol} on ${network}: ${warning}`];
  });
}

const SEE = '(docs/payments.md, "Buyers")';

function unknown({ asset }: AcceptedToken): string {
  return `@x402/fetch does not know this token, and pays in it only if the payer adds ${asset} to spendControls.allowedAssets ${SEE}`;
}

/** At the fixed rate, or at the highest that is taken. If there is neither, nothing is known. */
function tooDear(token: AcceptedToken, sold: readonly bigint[], dollar: bigint): string | undefined {
  const { decimals, markup_bps, rate_per_native_unit: rate, max_rate } = token;
  const rate_per_native_unit = typeof rate === "string" ? rate : max_rate;
  if (rate_per_native_unit === undefined) return undefined;
  const amounts = sold.map((wei) => tokenAmount(wei, { decimals, markup_bps, rate_per_native_unit }));
  const dear = amounts.filter((amount) => amount > dollar).length;
  if (dear === 0) return undefined;
  const may = typeof rate === "string" ? "cost" : "may cost";
  return `${dear} of ${sold.length} jobs ${may} more than a dollar, which @x402/fetch pays only if the payer raises spendControls.maxAmountPerPayment ${SEE}`;
}
