/**
 * Names of EVM networks in version 1, by chain id. Clients of version 1 reject a whole 402 if it has one name that they do not
 * know. So this table leaves out the newer names. Very old clients know even fewer (docs/payments.md, "Clients and wallets").
 */
export const V1_NETWORKS: Readonly<Record<number, string>> = {
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

/** Returns the chain id for a network's name in version 1. */
export function chainIdOfV1(name: string): number | undefined {
  const known = Object.entries(V1_NETWORKS).find(([, each]) => each === name);
  return known && Number(known[0]);
}
