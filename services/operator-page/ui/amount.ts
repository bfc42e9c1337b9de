/** An amount in a token's smallest units as people write it, exact. Without decimals it stays in those units, and says so. */
export function amountText(units: string, symbol: string, decimals: number | null | undefined): string {
  if (decimals == null || !/^\d+$/.test(units)) return `${units} smallest units of ${symbol}`;
  return `${decimalText(units, decimals)} ${symbol}`;
}

/** So many of the smallest units, as a decimal with groups of three digits. */
export function decimalText(units: string, decimals: number): string {
  const digits = units.padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const part = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${part === "" ? "" : `.${part}`}`;
}
