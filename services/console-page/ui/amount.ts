import type { PaidSum, Sum, TokenAmount } from "../api/payments.ts";
import { shortened } from "./copy.tsx";
import { counted } from "./number.ts";

/**
 * Writes an amount of a token's smallest units as a decimal, without rounding. Without known decimals it writes the
 * smallest units, and says so.
 */
export function amountText(units: string, symbol: string, decimals: number | null | undefined): string {
  if (decimals == null || !/^\d+$/.test(units)) return `${units} smallest units of ${symbol}`;
  return `${decimalText(units, decimals)} ${symbol}`;
}

/** Writes one amount for each token. Tokens with the same symbol also show their network or their contract. */
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

/** Writes `48 USDC for 11 calls`, and states separately which part is uncertain. */
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

/** Writes an amount of smallest units as a decimal with groups of three digits. */
export function decimalText(units: string, decimals: number): string {
  const digits = units.padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const part = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${part === "" ? "" : `.${part}`}`;
}
