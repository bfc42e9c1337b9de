import { jobKey } from "../call/job-ids.ts";
import { signingTerms } from "../chain/payment-schemes.ts";
import type { JobPrice, PriceList } from "../config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../config/x402-toml.ts";
import { discoveryOf, resourceOf } from "./discovery.ts";
import { tokenAmount } from "./prices.ts";

/**
 * What proxies have for the head of an answer, if nobody says otherwise: nginx a page of memory, which is 4 kB on most machines.
 * A larger head is a 502 there.
 */
const PROXY_HEAD_BYTES = 4096;
/** The other lines of a 402's head, with some room. */
const OTHER_LINES_BYTES = 480;
/** The `extensions` of a 402 in JSON, beside what one says of the job's input. */
const EXTENSIONS_BYTES = 286;
/** Why a payment is refused stands in the 402 too; few reasons are longer. */
const REASON = "x".repeat(120);

type Shop = Pick<X402Toml, "public_url" | "max_timeout_secs" | "max_offers" | "accepted_tokens">;

/** Warns if the head of the largest 402 of this configuration is more than a proxy takes. */
export function headWarnings(x402: Shop, prices: PriceList): string[] {
  const bytes = OTHER_LINES_BYTES + requiredHeaderBytes(x402, prices, REASON);
  if (prices.size === 0 || bytes <= PROXY_HEAD_BYTES) return [];
  const job = longestOf(x402, prices)?.job;
  const [count, set] = [
    Math.min(x402.max_offers ?? Number.POSITIVE_INFINITY, x402.accepted_tokens.length),
    x402.max_offers === undefined ? "max_offers" : "a lower max_offers",
  ];
  const offers = count === 1 ? "one offer" : `${count} offers`;
  const schema = job && discoveryOf(job.input) ? `, and the input schema of job ${jobKey(job)},` : "";
  const what = count === 1 ? "Set" : `Set ${set}, or set`;
  const verb = count === 1 && schema === "" ? "makes" : "make";
  return [
    `accepted_tokens: ${offers}${schema} ${verb} the head of a 402 up to ${bytes} bytes long. A proxy that allows 4 kB (the default of nginx) answers 502 instead. ${what} proxy_buffer_size of nginx to 16k (docs/payments.md, "Many tokens")`,
  ];
}

/** How long the value of the largest `PAYMENT-REQUIRED` is: for the job that says most of itself, and the highest amounts. */
export function requiredHeaderBytes(x402: Shop, prices: PriceList, error: string): number {
  const highest = [...prices.values()].reduce((wei, { priceWei }) => (priceWei > wei ? priceWei : wei), 0n);
  const offers = x402.accepted_tokens.map((token) => offerBytes(token, highest, x402.max_timeout_secs));
  // Which tokens have a rate at the moment is not known, so the longest offers are counted.
  const longestOffers = offers.toSorted((one, other) => other - one).slice(0, x402.max_offers);
  const frame = JSON.stringify({ x402Version: 2, error, resource: "", accepts: [], extensions: "" });
  const commas = Math.max(0, longestOffers.length - 1);
  const ofJob = longestOf(x402, prices)?.bytes ?? 0;
  const json = longestOffers.reduce((sum, each) => sum + each, Buffer.byteLength(frame) - 4 + commas);
  return 4 * Math.ceil((json + ofJob + EXTENSIONS_BYTES) / 3);
}

/** The job of which a 402 says most. */
function longestOf(x402: Shop, prices: PriceList): { job: JobPrice; bytes: number } | undefined {
  const said = [...prices.values()].map((job) => ({ job, bytes: jobBytes(job, x402.public_url) }));
  return said.reduce<(typeof said)[number] | undefined>(
    (most, each) => (most === undefined || each.bytes > most.bytes ? each : most),
    undefined,
  );
}

/** Its resource, and the extension about its input, in JSON. */
function jobBytes(job: JobPrice, publicUrl: string): number {
  const bazaar = discoveryOf(job.input)?.bazaar;
  const extension = bazaar === undefined ? "" : `,"bazaar":${JSON.stringify(bazaar)}`;
  return Buffer.byteLength(JSON.stringify(resourceOf(job, publicUrl)) + extension);
}

/** If nobody says how high a rate may be: a millionth of a native unit for a token. */
const HIGH_RATE = "1000000";

function offerBytes(token: AcceptedToken, priceWei: bigint, maxTimeoutSeconds: number): number {
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
    maxTimeoutSeconds,
    extra: { ...extra, ...quote },
  };
  return Buffer.byteLength(JSON.stringify(offer));
}
