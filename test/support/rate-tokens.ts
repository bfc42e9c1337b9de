import type { LiveSource } from "../../shared/config/rate-source.ts";
import { acceptedToken } from "../../shared/config/x402-toml.ts";
import { createRateReader } from "../../shared/pricing/rates/registry.ts";
import type { RateReading, ReadOptions } from "../../shared/pricing/rates/source.ts";

/** A token with this rate, as it stands in x402.toml. */
export const tokenTable = <Rate>(rate: Rate) => ({
  network: "eip155:8453",
  asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  symbol: "USDC",
  decimals: 6,
  pay_to: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
  rate_per_native_unit: rate,
  eip3009_name: "USD Coin",
  eip3009_version: "2",
});

/** The same as the configuration reads it. */
export function tokenWith(rate: unknown, more: Record<string, unknown> = {}) {
  return acceptedToken({ env: {} }).parse({ ...tokenTable(rate), ...more });
}

/** What one look at this source says, as it stands in x402.toml. */
export function judge(rate: unknown, options: Partial<ReadOptions> = {}, bounds = {}): Promise<RateReading> {
  const token = tokenWith(rate, bounds);
  const source = token.rate_per_native_unit as LiveSource;
  return createRateReader(source, token, { clock: () => Date.now(), timeoutMs: 5000, ...options })();
}
