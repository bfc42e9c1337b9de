/**
 * The EVM networks that every client of version 1 knows, by chain id. Those clients parse a whole 402 or nothing of it:
 * one name they do not know spoils all offers, so no newer name is here.
 */
const V1_NETWORKS: Readonly<Record<number, string>> = {
  2741: "abstract",
  11124: "abstract-testnet",
  84532: "base-sepolia",
  8453: "base",
  43113: "avalanche-fuji",
  43114: "avalanche",
  4689: "iotex",
  1329: "sei",
  1328: "sei-testnet",
  137: "polygon",
  80002: "polygon-amoy",
  3338: "peaq",
};

export function v1NetworkOf(chainId: number): string | undefined {
  return V1_NETWORKS[chainId];
}
