import type { PaymentRequired, PaymentRequirements } from "@x402/fetch";
import { inTokens, toUnits } from "../in-tokens.ts";
import { plain } from "../plain.ts";
import { PayFailure } from "./pay-failure.ts";

export type Limits = {
  /** In tokens, a decimal number. */
  max: string;
  /** Decimals of tokens that the client does not know by itself, by lower-case address. */
  tokens: Readonly<Record<string, number>>;
};

/** An offer that may be paid. */
export type Price = {
  offer: PaymentRequirements;
  /** As people write it: "3.2 USDC". */
  text: string;
  /** The cap, in the token's smallest units. */
  cap: bigint;
};

/** Tokens that the client knows by itself. */
export type KnownToken = (offer: PaymentRequirements) => { symbol: string; decimals: number } | undefined;

/** The first offer that can be paid and is within the cap. Throws where there is none: nothing is signed then. */
export function chooseOffer({ accepts }: PaymentRequired, limits: Limits, known: KnownToken): Price {
  const prices = accepts.flatMap((offer) => toPrice(offer, limits, known) ?? []);
  const affordable = prices.find(({ offer, cap }) => BigInt(offer.amount) <= cap);
  if (affordable !== undefined) return affordable;
  throw new PayFailure(prices.length === 0 ? noneKnown(accepts) : tooDear(prices, limits), {
    outcome: "refused",
  });
}

/** A signature is good for as long as the offer says: nobody needs longer than this to settle one. */
const TIMEOUT_SECONDS_MAX = 3600;

function toPrice(offer: PaymentRequirements, { max, tokens }: Limits, known: KnownToken): Price | undefined {
  const token = known(offer);
  const decimals = tokens[offer.asset.toLowerCase()] ?? token?.decimals;
  if (decimals === undefined || !isPayable(offer)) return undefined;
  const text = `${inTokens(BigInt(offer.amount), decimals)} ${token?.symbol ?? `of ${offer.asset}`}`;
  return { offer, text, cap: toUnits(max, decimals) };
}

function isPayable({ scheme, network, amount, maxTimeoutSeconds, extra }: PaymentRequirements): boolean {
  const method = extra?.["assetTransferMethod"] ?? "eip3009";
  const isExact = scheme === "exact" && method === "eip3009" && /^\d{1,78}$/.test(amount);
  return isExact && network.startsWith("eip155:") && maxTimeoutSeconds <= TIMEOUT_SECONDS_MAX;
}

function tooDear(prices: readonly Price[], { max }: Limits): string {
  return `the price is ${prices.map(({ text }) => text).join(" or ")}, over --max ${max}; nothing was signed`;
}

function noneKnown(accepts: readonly PaymentRequirements[]): string {
  const offers = accepts.map(({ scheme, network, asset }) => plain(`${scheme} on ${network} in ${asset}`));
  const offered = offers.join("; ") || "there are none";
  return `no offer can be paid from here (${offered}); --token takes a token that is not known; nothing was signed`;
}
