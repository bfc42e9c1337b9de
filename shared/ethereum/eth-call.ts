import type { Secret } from "../crypto/secret.ts";
import { Bytes, type Hex } from "./node-answers.ts";
import { createRpc } from "./rpc.ts";

/** `eth_call` at the head of whatever chain the node is of. Throws `payment.unavailable`. */
export function createEthCall({ rpcUrl, timeoutMs }: { rpcUrl: Secret; timeoutMs: number }) {
  const rpc = createRpc({ url: rpcUrl, timeoutMs });
  return (call: { to: Hex; data: Hex }): Promise<Hex> => {
    return rpc({ method: "eth_call", params: [call, "latest"], answer: Bytes });
  };
}
