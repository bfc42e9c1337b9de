import type { MedianSource } from "../../../config/rate-source.ts";
import {
  compare,
  mean,
  parseDecimal,
  quotient,
  type Ratio,
  toDecimal,
} from "../../../platform/text/decimal.ts";
import type { RateReader, RateReading } from "../source.ts";

/**
 * Creates the reader of several sources. It returns the median of the values of those sources that answer and agree, if they are
 * enough.
 */
export function medianReader(median: MedianSource, legs: readonly RateReader[], name: string): RateReader {
  const rules = { maxDeviationBps: median.max_deviation_bps, sourcesMin: median.min_sources };
  return async () => {
    const read = await Promise.all(legs.map((leg) => leg()));
    const answered = read.filter((each) => each.value !== undefined);
    const { agrees, value } = agreedMedian(
      answered.map((each) => each.value ?? ""),
      rules,
    );
    const outliers = new Set(answered.filter((_, index) => !agrees[index]));
    const reported = read.map((each) =>
      outliers.has(each) ? { ...each, reason: "ignored: differs by more than max_deviation_bps" } : each,
    );
    if (value !== undefined) return { source: name, legs: reported, value };
    const agreeing = agrees.filter(Boolean).length;
    return { source: name, legs: reported, reason: tooFew(agreeing, median.min_sources, reported) };
  };
}

function tooFew(agreeing: number, sourcesMin: number, legs: readonly RateReading[]): string {
  const out = legs.flatMap(({ source, reason }) => (reason === undefined ? [] : [`${source}: ${reason}`]));
  return `${agreeing} of ${legs.length} sources agree, but min_sources is ${sourcesMin} (${out.join("; ")})`;
}

type Rules = {
  /** Permitted deviation of a value from the median of all values, in 1/10000 of that median. */
  maxDeviationBps: number;
  /** Number of sources that must answer and agree. */
  sourcesMin: number;
};

type Agreement = {
  /** For each value, in the order of the input: whether it is near enough to the median of all values. */
  agrees: readonly boolean[];
  /** The median of the values that agree. Undefined if these are too few. */
  value: string | undefined;
};

/** Returns the exact median of those values that are near the median of all values. */
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
