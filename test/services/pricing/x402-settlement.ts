import { z } from "zod";
import type { X402Settlement } from "../../../services/pricing/pricing.ts";
import { acceptedToken } from "../../../shared/config/x402-toml.ts";

/** Tokens of the payment gateway in these tests: a thousandth of a native unit is 3.264 USDC. */
export const TOKENS = z.array(acceptedToken({ env: {} })).parse([
  {
    network: "eip155:31337",
    asset: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    symbol: "USDC",
    decimals: 6,
    markup_bps: 200,
    pay_to: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    rate_per_native_unit: "3200",
    ...{ eip3009_name: "USD Coin", eip3009_version: "2" },
  },
]);

export function settledAt(public_url: string): X402Settlement {
  return { public_url, accepted_tokens: TOKENS };
}
