import { compare, parseDecimal } from "./decimal.ts";

/** What a token's rate has to be between, both included. */
export type Bounds = { min_rate?: string | undefined; max_rate?: string | undefined };

/** Why a rate is not to be used, if it is not. */
export function outsideOf(value: string, { min_rate, max_rate }: Bounds): string | undefined {
  const rate = parseDecimal(value);
  if (rate === undefined || rate.numerator === 0n) return "the rate is no number above 0";
  const [least, most] = [min_rate, max_rate].map((text) => (text === undefined ? text : parseDecimal(text)));
  if (least !== undefined && compare(rate, least) < 0)
    return `${short(value)} is below min_rate (${min_rate})`;
  if (most !== undefined && compare(rate, most) > 0) return `${short(value)} is above max_rate (${max_rate})`;
  return undefined;
}

function short(value: string): string {
  return value.length > 40 ? `${value.slice(0, 40)}...` : value;
}
