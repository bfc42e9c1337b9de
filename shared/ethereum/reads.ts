import { Block, Bytes, type Hex, Receipt, toQuantity } from "./node-answers.ts";
import type { Rpc } from "./rpc.ts";

/** The questions that are asked of a node about its blocks. */
export type Reads = {
  block(tag: "latest" | "finalized"): Promise<Block>;
  /** Null where the node knows no such transaction in its chain. */
  receipt(transaction: Hex): Promise<Receipt | null>;
  call(call: { to: Hex; data: Hex }, block: bigint): Promise<Hex>;
};

export function createReads(rpc: Rpc): Reads {
  return {
    block: (tag) => rpc({ method: "eth_getBlockByNumber", params: [tag, false], answer: Block }),
    receipt: (hash) => rpc({ method: "eth_getTransactionReceipt", params: [hash], answer: Receipt }),
    call: (call, block) => {
      return rpc({ method: "eth_call", params: [call, toQuantity(block)], answer: Bytes });
    },
  };
}
