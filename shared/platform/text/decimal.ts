/** Exact number `numerator / denominator`. The denominator is positive. */
export type Ratio = { numerator: bigint; denominator: bigint };

const TEXT_CHARS_MAX = 200;
const EXPONENT_MAX = 200;

/** JSON's form of numbers (RFC 8259, section 6), without a sign. */
const NUMBER = /^(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;

/** Parses a number exactly. Undefined if it is negative, not a number, or extremely long. */
export function parseDecimal(text: string): Ratio | undefined {
  if (text.length > TEXT_CHARS_MAX) return undefined;
  const [, whole, fraction = "", exponent = "0"] = NUMBER.exec(text) ?? [];
  if (whole === undefined || Math.abs(Number(exponent)) > EXPONENT_MAX) return undefined;
  return scaled(BigInt(whole + fraction), Number(exponent) - fraction.length);
}

/** Returns `digits` times ten to the power of `exponent`. */
export function scaled(digits: bigint, exponent: number): Ratio {
  const power = 10n ** BigInt(Math.abs(exponent));
  return exponent < 0
    ? { numerator: digits, denominator: power }
    : { numerator: digits * power, denominator: 1n };
}

/** Returns a negative number if `a` is less than `b`, a positive one if it is greater, otherwise 0. */
export function compare(a: Ratio, b: Ratio): number {
  const [left, right] = [a.numerator * b.denominator, b.numerator * a.denominator];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

export function mean(a: Ratio, b: Ratio): Ratio {
  return {
    numerator: a.numerator * b.denominator + b.numerator * a.denominator,
    denominator: 2n * a.denominator * b.denominator,
  };
}

/** Returns `a` divided by `b`, which must be positive. */
export function quotient(a: Ratio, b: Ratio): Ratio {
  return { numerator: a.numerator * b.denominator, denominator: a.denominator * b.numerator };
}

/** Returns the inverse of a positive ratio. */
export function inverse({ numerator, denominator }: Ratio): Ratio {
  return { numerator: denominator, denominator: numerator };
}

const DIGITS = 30;

/**
 * Formats a ratio as plain decimal text. The text is exact if the ratio has finitely many decimals. Otherwise it has at
 * least 30 significant digits and is rounded up, so that no price computed with it is too low.
 */
export function toDecimal({ numerator, denominator }: Ratio): string {
  const exact = exactScale(denominator);
  const magnitude = String(numerator).length - String(denominator).length;
  const scale = exact ?? Math.max(0, DIGITS - magnitude);
  const dividend = numerator * 10n ** BigInt(scale);
  const digits = String((dividend + denominator - 1n) / denominator).padStart(scale + 1, "0");
  const at = digits.length - scale;
  const fraction = digits.slice(at).replace(/0+$/, "");
  return fraction === "" ? digits.slice(0, at) : `${digits.slice(0, at)}.${fraction}`;
}

/**
 * Returns the number of decimals of a fraction with this denominator. Undefined if the decimals never end, or are too
 * many.
 */
function exactScale(denominator: bigint): number | undefined {
  let [rest, twos, fives] = [denominator, 0, 0];
  for (; rest % 2n === 0n; twos += 1) rest /= 2n;
  for (; rest % 5n === 0n; fives += 1) rest /= 5n;
  const scale = Math.max(twos, fives);
  return rest === 1n && scale <= EXPONENT_MAX ? scale : undefined;
}
