import { compare, mean, parseDecimal, quotient, type Ratio, toDecimal } from "../../../text/decimal.ts";

type Rules = {
  /** In 1/10000 of the median of all that answered. */
  maxDeviationBps: number;
  /** With fewer that answered and agree there is no value. */
  sourcesMin: number;
};

export type Agreement = {
  /** Of each value, in its order: whether it is near enough to the median of all. */
  agrees: readonly boolean[];
  /** The median of those that agree; undefined where they are too few. */
  value: string | undefined;
};

/** The median of the values that are near it; exact. */
export function agreedMedian(values: readonly string[], { maxDeviationBps, sourcesMin }: Rules): Agreement {
  const numbers = values.map((text) => parseDecimal(text) ?? { numerator: 0n, denominator: 1n });
  const middle = medianOf(numbers);
  const agrees = numbers.map((each) => middle !== undefined && isNear(each, middle, maxDeviationBps));
  const near = numbers.filter((_, index) => agrees[index]);
  const median = near.length < sourcesMin ? undefined : medianOf(near);
  return { agrees, value: median && toDecimal(median) };
}

function medianOf(numbers: readonly Ratio[]): Ratio | undefined {
  const sorted = [...numbers].sort(compare);
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]];
  return low && high && (low === high ? low : mean(low, high));
}

function isNear(value: Ratio, middle: Ratio, bps: number): boolean {
  if (middle.numerator === 0n) return false;
  const { numerator, denominator } = quotient(value, middle);
  const off = numerator > denominator ? numerator - denominator : denominator - numerator;
  return off * 10_000n <= BigInt(bps) * denominator;
}
