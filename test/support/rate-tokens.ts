import type { LiveSource } from "../../shared/config/rate-source.ts";
import { acceptedToken } from "../../shared/config/x402-toml.ts";
import { createRateReader } from "../../shared/pricing/rates/registry.ts";
import type { RateReading, ReadOptions } from "../../shared/pricing/rates/source.ts";

/** Returns a token with this rate, as in x402.toml. */
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

/** Returns the token in the form that the configuration reads. */
export function tokenWith(rate: unknown, more: Record<string, unknown> = {}) {
  return acceptedToken({ env: {} }).parse({ ...tokenTable(rate), ...more });
}

/** Reads a source once; `rate` is as in x402.toml. */
export function readRateOnce(
  rate: unknown,
  options: Partial<ReadOptions> = {},
  bounds = {},
): Promise<RateReading> {
  const token = tokenWith(rate, bounds);
  const source = token.rate_per_native_unit as LiveSource;
  return createRateReader(source, token, { clock: () => Date.now(), timeoutMs: 5000, ...options })();
}
