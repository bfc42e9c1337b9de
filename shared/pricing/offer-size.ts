import { jobKey } from "../call/job-ids.ts";
import { signingTerms } from "../chain/payment-schemes.ts";
import type { JobPrice, PriceList } from "../config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../config/x402-toml.ts";
import { discoveryOf, resourceOf, type ShopFacts } from "./discovery.ts";
import { tokenAmount } from "./prices.ts";

/**
 * Maximum size of an answer's status line and headers that a proxy accepts by default. It is the default of nginx: a page of
 * memory, 4 kB on most machines. For a larger answer, nginx sends a 502 to the client.
 */
const PROXY_HEAD_BYTES = 4096;
/** Size of the status line of a 402 and of its headers other than `PAYMENT-REQUIRED`. */
const OTHER_LINES_BYTES = 480;
/** Size of the `extensions` of a 402 in JSON, without the description of the job's input and output. */
const EXTENSIONS_BYTES = 286;
/**
 * Size of what a 402 says about an extension with which a facilitator pays the gas of payers. `permit` and `approval` are the kinds
 * of approval that the facilitator sends to the chain.
 */
const GAS_SPONSORING_BYTES = { permit: 654, approval: 543 };
/** Placeholder for the reason of a refusal, which the 402 after a refused payment contains. Few reasons are longer. */
const REASON = "x".repeat(120);

type Shop = ShopFacts &
  Pick<X402Toml, "offer_payment_flow" | "max_timeout_secs" | "max_offers" | "accepted_tokens">;

/** Warns if the largest possible 402 has more header bytes than proxies allow by default. */
export function headWarnings(x402: Shop, prices: PriceList): string[] {
  const bytes = OTHER_LINES_BYTES + requiredHeaderBytes(x402, prices, REASON);
  if (prices.size === 0 || bytes <= PROXY_HEAD_BYTES) return [];
  const job = longestOf(x402, prices)?.job;
  const [count, set] = [
    Math.min(x402.max_offers ?? Number.POSITIVE_INFINITY, x402.accepted_tokens.length),
    x402.max_offers === undefined ? "max_offers" : "a lower max_offers",
  ];
  const offers = count === 1 ? "one offer" : `${count} offers`;
  const schema = job && discoveryOf(job) ? `, and the schemas of job ${jobKey(job)},` : "";
  const what = count === 1 ? "Set" : `Set ${set}, or set`;
  const verb = count === 1 && schema === "" ? "makes" : "make";
  return [
    `accepted_tokens: ${offers}${schema} ${verb} the head of a 402 up to ${bytes} bytes long. A proxy that allows 4 kB (the default of nginx) answers 502 instead. ${what} proxy_buffer_size of nginx to 16k (docs/payments.md, "Many tokens")`,
  ];
}

/**
 * Returns the maximum length of a `PAYMENT-REQUIRED` value. Assumes the longest description of a job and the highest
 * amounts.
 */
export function requiredHeaderBytes(x402: Shop, prices: PriceList, error: string): number {
  const highest = [...prices.values()].reduce((wei, { priceWei }) => (priceWei > wei ? priceWei : wei), 0n);
  const offers = x402.accepted_tokens.map((token) => offerBytes(token, highest, x402));
  // It is not known which rates will be available, so the longest offers are counted.
  const longestOffers = offers.toSorted((one, other) => other - one).slice(0, x402.max_offers);
  const frame = JSON.stringify({ x402Version: 2, error, resource: "", accepts: [], extensions: "" });
  const commas = Math.max(0, longestOffers.length - 1);
  const ofJob = longestOf(x402, prices)?.bytes ?? 0;
  const json = longestOffers.reduce((sum, each) => sum + each, Buffer.byteLength(frame) - 4 + commas);
  return 4 * Math.ceil((json + ofJob + EXTENSIONS_BYTES + gasSponsoringBytes(x402)) / 3);
}

/**
 * Returns the size of the declarations of the extensions by which a facilitator pays a payer's gas. Counts each extension that a
 * token can use, because it is not known here which ones the facilitators support.
 */
function gasSponsoringBytes({ accepted_tokens: tokens }: Shop): number {
  const { permit, approval } = GAS_SPONSORING_BYTES;
  const byPermit2 = tokens.filter((token) => token.transfer_method === "permit2");
  const hasPermits = byPermit2.some((token) => token.eip2612_domain !== undefined);
  return (byPermit2.length > 0 ? approval : 0) + (hasPermits ? permit : 0);
}

/** Returns the job with the longest description in a 402. */
function longestOf(x402: Shop, prices: PriceList): { job: JobPrice; bytes: number } | undefined {
  const said = [...prices.values()].map((job) => ({ job, bytes: jobBytes(job, x402) }));
  return said.reduce<(typeof said)[number] | undefined>(
    (most, each) => (most === undefined || each.bytes > most.bytes ? each : most),
    undefined,
  );
}

/** Returns the length of a job's description in a 402: its resource, and the extension about its input and output. */
function jobBytes(job: JobPrice, shop: ShopFacts): number {
  const bazaar = discoveryOf(job)?.bazaar;
  const extension = bazaar === undefined ? "" : `,"bazaar":${JSON.stringify(bazaar)}`;
  return Buffer.byteLength(JSON.stringify(resourceOf(job, shop)) + extension);
}

/**
 * Rate that is assumed for a token with a changing rate and no `max_rate`: a million tokens for a native unit. It is far above
 * usual rates, so the amount in the offer is long.
 */
const HIGH_RATE = "1000000";

function offerBytes(token: AcceptedToken, priceWei: bigint, x402: Shop): number {
  const { network, asset, pay_to: payTo } = token;
  const { decimals, markup_bps, rate_per_native_unit: rate, max_rate = HIGH_RATE } = token;
  const amount = tokenAmount(priceWei, {
    decimals,
    markup_bps,
    rate_per_native_unit: typeof rate === "string" ? rate : max_rate,
  });
  const quote = { quoteDigest: "x".repeat(66), quoteExpiry: 2_000_000_000, quoteMac: "x".repeat(43) };
  const { scheme, extra } = signingTerms(token);
  const offer = {
    scheme,
    network,
    asset,
    amount: String(amount),
    payTo,
    maxTimeoutSeconds: x402.max_timeout_secs,
    extra: { ...extra, ...quote, ...(x402.offer_payment_flow && { paymentFlow: "upfront" }) },
  };
  return Buffer.byteLength(JSON.stringify(offer));
}
