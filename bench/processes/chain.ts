import { keccak256Hex } from "../../shared/evm/keccak.ts";
import { addressWord, uintWord } from "../../shared/evm/words.ts";

type Settled = { asset: string; from: string; to: string; value: string; nonce: string; block: number };

const topicOf = (event: string) => keccak256Hex(Buffer.from(event));
const USED = topicOf("AuthorizationUsed(address,bytes32)");
const TRANSFER = topicOf("Transfer(address,address,uint256)");
const BLOCK_HASH = `0x${"0".repeat(64)}`;

/**
 * A node's view of the payments that were settled, each in a transaction whose hash is the payment's nonce: enough of
 * JSON-RPC for a gateway that follows the head and looks for each payment's proof. A block is a second.
 */
export function createChain(chainId: number) {
  const startedAt = Date.now();
  const settled = new Map<string, Settled>();
  const head = () => 1000 + Math.floor((Date.now() - startedAt) / 1000);

  function receipt(hash: string) {
    const payment = settled.get(hash);
    if (payment === undefined) return null;
    const { asset, from, to, value, nonce, block } = payment;
    const place = {
      address: asset,
      blockNumber: hex(block),
      blockHash: BLOCK_HASH,
      transactionHash: hash,
    };
    const used = { ...place, logIndex: "0x0", data: "0x", topics: [USED, `0x${addressWord(from)}`, nonce] };
    const topics = [TRANSFER, `0x${addressWord(from)}`, `0x${addressWord(to)}`];
    const moved = { ...place, logIndex: "0x1", data: `0x${uintWord(BigInt(value))}`, topics };
    return { ...place, status: "0x1", logs: [used, moved] };
  }

  function answer(method: string, [first]: readonly unknown[]): unknown {
    switch (method) {
      case "eth_chainId":
        return hex(chainId);
      case "eth_getBlockByNumber":
        return { number: hex(head()), timestamp: hex(Math.floor(Date.now() / 1000)) };
      case "eth_getTransactionReceipt":
        return receipt(String(first));
      default:
        throw new Error(`the bench's chain knows no ${method}`);
    }
  }

  return {
    settle(body: string): void {
      const textOf = (name: string) =>
        new RegExp(`"${name}":"(0x[0-9a-fA-F]+|[0-9]+)"`).exec(body)?.[1] ?? "";
      const [asset, from, to] = [textOf("asset"), textOf("from"), textOf("to")];
      const nonce = textOf("nonce");
      settled.set(nonce, { asset, from, to, value: textOf("value"), nonce, block: head() });
    },
    rpc(body: string): string {
      const { id, method, params } = JSON.parse(body) as { id: number; method: string; params: unknown[] };
      return JSON.stringify({ jsonrpc: "2.0", id, result: answer(method, params) });
    },
  };
}

function hex(number: number): string {
  return `0x${number.toString(16)}`;
}
