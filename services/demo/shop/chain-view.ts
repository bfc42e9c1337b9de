import { createPublicClient, http, parseAbi, parseAbiItem } from "viem";
import type { Devnet } from "../../../shared/dev/devnet.ts";

type Hex = `0x${string}`;

/** A transfer of tokens to the seller. */
export type Charge = { from: string; units: bigint; transaction: string };

/** The devnet's chain, asked without any of Postern's code. */
export type ChainView = {
  chainId(): Promise<number>;
  /** In the token's smallest units. */
  balanceOf(owner: Hex): Promise<bigint>;
  /** Oldest first; of one payer, or of all. */
  charges(payer?: Hex): Promise<Charge[]>;
};

const BALANCE_OF = parseAbi(["function balanceOf(address owner) view returns (uint256)"]);
const TRANSFER = parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)");

export function createChainView({ rpcUrl, token, seller }: Devnet): ChainView {
  const client = createPublicClient({ transport: http(rpcUrl), cacheTime: 0 });
  return {
    chainId: () => client.getChainId(),
    balanceOf: (owner) =>
      client.readContract({ address: token, abi: BALANCE_OF, functionName: "balanceOf", args: [owner] }),
    async charges(payer) {
      const args = { to: seller, ...(payer && { from: payer }) };
      const logs = await client.getLogs({
        address: token,
        event: TRANSFER,
        args,
        strict: true,
        fromBlock: 0n,
      });
      return logs.map(({ args: { from, value }, transactionHash }) => ({
        from,
        units: value,
        transaction: transactionHash,
      }));
    },
  };
}
