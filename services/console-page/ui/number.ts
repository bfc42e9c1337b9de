const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Writes a number with groups of three digits: `12,480`. */
export function count(value: number): string {
  return whole.format(value);
}

/** Writes a number in at most four characters, rounded down: `12k`. */
export function shortCount(value: number): string {
  if (value < 1000) return String(value);
  return value < 1_000_000 ? `${Math.floor(value / 1000)}k` : `${Math.floor(value / 1_000_000)}M`;
}

/** Writes a number with its noun: `1 call`, `2 calls`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Writes a rate per second. A small rate gets more decimals, so that it does not look like zero. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond >= 100) return count(perSecond);
  return perSecond >= 1 ? perSecond.toFixed(1) : perSecond >= 0.01 ? perSecond.toFixed(2) : "<0.01";
}

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const large = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" });

/** Writes a number with few significant digits: `3,201.75`, `0.000123457`, `12.35M`. */
export function significant(value: number): string {
  return value < 1_000_000 ? digits.format(value) : large.format(value);
}

const BYTE_UNITS = ["B", "kB", "MB", "GB"];

/**
 * Writes a size in the first unit in which the rounded number has at most three digits before the point: `1.2 kB`,
 * `100 MB`.
 */
export function bytes(value: number): string {
  let power = 0;
  let scaled = value;
  while (Math.round(scaled) >= 1000 && power < BYTE_UNITS.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  return `${power === 0 || scaled >= 99.95 ? Math.round(scaled) : scaled.toFixed(1)} ${BYTE_UNITS[power]}`;
}
