import type { PriceList } from "../config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../config/x402-toml.ts";
import { jobsOnSale, tokenAmount } from "./prices.ts";

type Shop = Pick<X402Toml, "accepted_tokens" | "job_policies" | "default_invocation_mode">;

/**
 * Returns warnings about payments that the client library `@x402/fetch` makes only if its user permits them. These are
 * payments in tokens that it does not know, and payments of more than a dollar.
 */
export function clientWarnings(x402: Shop, prices: PriceList): string[] {
  const sold = jobsOnSale(x402, prices).map(({ priceWei }) => priceWei);
  if (sold.length === 0) return [];
  return x402.accepted_tokens.flatMap((token, index) => {
    const { asset, network, symbol } = token;
    const decimals = KNOWN_TOKENS[`${network}/${asset.toLowerCase()}`];
    const warning =
      decimals === undefined ? unknown(token) : tooExpensive(token, sold, 10n ** BigInt(decimals));
    return warning === undefined ? [] : [`accepted_tokens[${index}]: ${symbol} on ${network}: ${warning}`];
  });
}

const SEE = '(docs/payments.md, "Buyers")';

function unknown({ asset }: AcceptedToken): string {
  return `@x402/fetch does not know this token, and pays in it only if the payer adds ${asset} to spendControls.allowedAssets ${SEE}`;
}

/**
 * Returns a warning if a job costs more than a dollar. A job's cost is computed at the token's fixed rate or, if the rate
 * changes, at its `max_rate`. Returns undefined if the token has neither.
 */
function tooExpensive(token: AcceptedToken, sold: readonly bigint[], dollar: bigint): string | undefined {
  const { decimals, markup_bps, rate_per_native_unit: rate, max_rate } = token;
  const rate_per_native_unit = typeof rate === "string" ? rate : max_rate;
  if (rate_per_native_unit === undefined) return undefined;
  const amounts = sold.map((wei) => tokenAmount(wei, { decimals, markup_bps, rate_per_native_unit }));
  const dear = amounts.filter((amount) => amount > dollar).length;
  if (dear === 0) return undefined;
  const may = typeof rate === "string" ? "cost" : "may cost";
  return `${dear} of ${sold.length} jobs ${may} more than a dollar, which @x402/fetch pays only if the payer raises spendControls.maxAmountPerPayment ${SEE}`;
}

/**
 * Decimals of the tokens that `@x402/fetch` knows, by network and address. This table is a copy from a package that is not loaded
 * here, because it also loads viem. A test compares the two.
 */
export const KNOWN_TOKENS: Readonly<Record<string, number>> = {
  "eip155:8453/0x833589fcd6edb6e08f4c7c32d4f71b54bda02913": 6,
  "eip155:84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e": 6,
  "eip155:1/0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48": 6,
  "eip155:43114/0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e": 6,
  "eip155:4326/0xfafddbb3fc7688494971a79cc65dca3ef82079e7": 18,
  "eip155:143/0x754704bc059f8c67012fed69bc8a327a5aafb603": 6,
  "eip155:988/0x779ded0c9e1022225f8e0630b35a9b54be713736": 6,
  "eip155:2201/0x78cf24370174180738c5b8e352b6d14c83a6c9a9": 6,
  "eip155:137/0x3c499c542cef5e3811e1192ce70d8cc03d5c3359": 6,
  "eip155:42161/0xaf88d065e77c8cc2239327c5edb3a432268e5831": 6,
  "eip155:421614/0x75faf114eafb1bdbe2f0316df893fd58ce46aa4d": 6,
  "eip155:31612/0xdd468a1ddc392dcdbef6db6e34e89aa338f9f186": 18,
  "eip155:31611/0x118917a40faf1cd7a13db0ef56c86de7973ac503": 18,
  "eip155:723487/0x33ad9e4bd16b69b5bfded37d8b5d9ff9aba014fb": 6,
  "eip155:72344/0x33ad9e4bd16b69b5bfded37d8b5d9ff9aba014fb": 6,
  "eip155:36900/0x9cb8142aebbcdc60af7c97af897a67a8f3ca71c2": 6,
  "eip155:190415/0x401ecb1d350407f13ba348573e5630b83638e30d": 6,
  "eip155:181228/0x401ecb1d350407f13ba348573e5630b83638e30d": 6,
  "eip155:50/0xfa2958cb79b0491cc627c1557f441ef849ca8eb1": 6,
  "eip155:51/0xb5ab69f7bbada22b28e79c8ffaece55ef1c771d4": 6,
  "eip155:38833/0xa5b8bf902b2844da17d4506cc827f7f1681735e7": 6,
  "eip155:14/0xe7cd86e13ac4309349f30b3435a9d337750fc82d": 6,
  "eip155:42220/0xceba9300f2b948710d2653dd7b07f33a8b32118c": 6,
  "eip155:42220/0x48065fbbe25f71c9282ddf5e1cd6d6a887483d5e": 6,
  "eip155:42220/0xd2ab3c9a02dbbab236bfec45d1d755df4267f771": 6,
  "eip155:11142220/0x01c5c0122039549ad1493b8220cabedd739bc44e": 6,
  "eip155:1329/0xe15fc38f6d8c56af07bbcbe3baf5708a2bf42392": 6,
  "eip155:1328/0x4fcf1784b31630811181f670aea7a7bef803eaed": 6,
};
