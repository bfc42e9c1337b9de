/** Text of somebody else's for a screen: on one line, and without what a terminal would obey. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]+/gu, " ");
}

/** An amount in a token's smallest units as people write it: 3200000 of 6 decimals is 3.2. */
export function inTokens(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** The whole units within an amount, a decimal number: what of it is finer than the token is left off. */
export function toUnits(text: string, decimals: number): bigint {
  const [whole = "", fraction = ""] = text.split(".");
  return BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}

export function toIso(at: number): string {
  return new Date(at).toISOString();
}
