const DECIMALS = 6;

/** The token's smallest units as USDC, all decimals of them. */
export function usdc(units: bigint): string {
  const sign = units < 0n ? "-" : "";
  const digits = String(units < 0n ? -units : units).padStart(DECIMALS + 1, "0");
  return `${sign}${digits.slice(0, -DECIMALS)}.${digits.slice(-DECIMALS)}`;
}
