import type { PaidSum, Sum, TokenAmount } from "../api/payments.ts";
import { shortened } from "./copy.tsx";
import { counted } from "./number.ts";

/**
 * Formats an amount of a token as a decimal number, without rounding. `units` is in the token's smallest units. If the
 * token's decimals are not known, the text says how many smallest units it is.
 */
export function amountText(units: string, symbol: string, decimals: number | null | undefined): string {
  if (decimals == null || !/^\d+$/.test(units)) return `${units} smallest units of ${symbol}`;
  return `${decimalText(units, decimals)} ${symbol}`;
}

/**
 * Formats the amount of each token. If several tokens have the same symbol, adds their networks, and also their
 * contracts if these are on the same network.
 */
export function amountTexts(amounts: readonly TokenAmount[]): string[] {
  return amounts.map((each) => {
    const text = amountText(each.amount, each.symbol, each.decimals);
    const namesakes = amounts.filter((other) => other !== each && other.symbol === each.symbol);
    if (namesakes.length === 0) return text;
    const isOnOther = namesakes.every(({ network }) => network !== each.network);
    return `${text} on ${each.network}${isOnOther ? "" : ` (${shortened(each.asset, 6, 4)})`}`;
  });
}

export const amountsText = (amounts: readonly TokenAmount[]): string => amountTexts(amounts).join(" and ");

/**
 * Formats what was paid for calls, such as `48 USDC for 11 calls`. Payments that the chain has not confirmed yet, and
 * unreadable ones, are listed separately.
 */
export function paidText({ confirmed, unconfirmed, unreadable }: PaidSum, isAtLeast = false): string {
  const sumText = ({ calls, amounts }: Sum, doubt = "") =>
    calls === 0 ? [] : [`${amountsText(amounts)}${doubt} for ${counted(calls, "call")}`];
  const texts = [
    ...sumText(confirmed),
    ...sumText(unconfirmed, ", not yet confirmed on chain,"),
    ...(unreadable === 0 ? [] : [`an unreadable amount for ${counted(unreadable, "call")}`]),
  ];
  return `${isAtLeast ? "at least " : ""}${texts.join("; ")}`;
}

/** Formats an amount in smallest units as a decimal number with groups of three digits. */
export function decimalText(units: string, decimals: number): string {
  const digits = units.padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const part = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${part === "" ? "" : `.${part}`}`;
}
