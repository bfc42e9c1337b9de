/** An amount in a token's smallest units as people write it: 3200000 of 6 decimals is 3.2. */
export function inTokens(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** The reverse; undefined for what is no amount, or finer than the token. */
export function toUnits(text: string, decimals: number): bigint | undefined {
  const [, whole, fraction = ""] = /^(\d{1,60})(?:\.(\d{1,36}))?$/.exec(text) ?? [];
  if (whole === undefined || fraction.length > decimals) return undefined;
  return BigInt(whole + fraction.padEnd(decimals, "0"));
}
