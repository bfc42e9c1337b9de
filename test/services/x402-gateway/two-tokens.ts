import type { UsedDevnet } from "../../fixtures/devnet.ts";

export const ASSET_18 = "0x1111111111111111111111111111111111111111";

/** Settings with a second token. It has 18 decimals, and its chain has no node and no name in version 1. */
export function twoTokens({ network, token, seller, rpcUrl, facilitatorUrl }: UsedDevnet) {
  const shared = { pay_to: seller, rate_per_native_unit: "3200", eip3009_version: "2" };
  const usdc = { network, asset: token, symbol: "USDC", decimals: 6, eip3009_name: "USDC", rpc_url: rpcUrl };
  const day = { network: "eip155:31337", asset: ASSET_18, symbol: "DAY", decimals: 18, eip3009_name: "Day" };
  return {
    accepted_tokens: [
      { ...shared, ...usdc },
      { ...shared, ...day },
    ],
    trust_facilitator: true,
    // The second facilitator is never reached, so every kind may be supported by it.
    facilitator_url: [facilitatorUrl, "http://127.0.0.1:1"],
  };
}
