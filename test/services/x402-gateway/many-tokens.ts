import type { UsedDevnet } from "../../fixtures/devnet.ts";

/** Settings with the devnet's token and `more` others. Each other token is on its own chain without a node: eip155:1001 and up. */
export function manyTokens({ network, token, seller, rpcUrl, facilitatorUrl }: UsedDevnet, more: number) {
  const shared = { pay_to: seller, decimals: 6, rate_per_native_unit: "3200", eip3009_version: "2" };
  const usdc = { network, asset: token, symbol: "USDC", eip3009_name: "USDC", rpc_url: rpcUrl };
  const others = Array.from({ length: more }, (_, index) => ({
    ...{ network: `eip155:${1001 + index}`, asset: `0x${String(index + 1).repeat(40)}` },
    ...{ symbol: "USDC", eip3009_name: "USD Coin" },
  }));
  return {
    accepted_tokens: [usdc, ...others].map((each) => ({ ...shared, ...each })),
    trust_facilitator: true,
    // The second facilitator is never reached, so every kind may be supported by it.
    facilitator_url: [facilitatorUrl, "http://127.0.0.1:1"],
  };
}
