import { AUTHORIZATION_USED } from "../../shared/chain/eip3009.ts";
import { addressWord, selectorOf, uintWord } from "../../shared/chain/encoding.ts";
import { TRANSFER } from "../../shared/chain/proof.ts";
import { domainSeparator } from "../../shared/chain/typed-data.ts";

type Request = { id: number; method: string; params: unknown[] };
type Settled = { asset: string; from: string; to: string; value: string; nonce: string; block: number };

const FINAL_BLOCKS = 2;
const DECIMALS = selectorOf("decimals()");
const BALANCE_OF = selectorOf("balanceOf(address)");
const AMPLE = 10n ** 18n;
const DOMAIN_SEPARATOR = selectorOf("DOMAIN_SEPARATOR()");
const BLOCK_HASH = `0x${"0".repeat(64)}`;

/**
 * Simulates a node of a chain on which the simulated facilitator settles payments. The node answers only those JSON-RPC
 * methods that a gateway uses: to check the token, to follow the newest block, and to find settled payments. The hash of a
 * payment's transaction is simply the payment's nonce. A block takes a second.
 */
export function createChain(chainId: number) {
  const startedAt = Date.now();
  const settled = new Map<string, Settled>();
  const head = () => 1000 + Math.floor((Date.now() - startedAt) / 1000);

  /** Returns the receipt of a transaction, or null if the transaction has no receipt. With `late`, also null until the next block. */
  function receipt(hash: string, late: boolean) {
    const payment = settled.get(hash);
    if (payment === undefined || (late && payment.block >= head())) return null;
    return { ...placeOf(payment), status: "0x1", logs: logsOf(payment) };
  }

  function answer(method: string, [first]: readonly unknown[], late: boolean): unknown {
    switch (method) {
      case "eth_chainId":
        return hex(chainId);
      case "eth_getBlockByNumber": {
        const depth = first === "finalized" ? FINAL_BLOCKS : 0;
        return {
          number: hex(head() - depth),
          hash: BLOCK_HASH,
          timestamp: hex(Math.floor(Date.now() / 1000) - depth),
        };
      }
      case "eth_getTransactionReceipt":
        return receipt(String(first), late);
      case "eth_getLogs":
        return usesIn(first);
      case "eth_getCode":
        return "0x01";
      case "eth_call":
        return `0x${called(first as { to: string; data: string })}`;
      default:
        throw new Error(`the bench's chain knows no ${method}`);
    }
  }

  function called({ to: verifyingContract, data }: { to: string; data: string }): string {
    if (data === DECIMALS) return uintWord(6n);
    if (data.startsWith(BALANCE_OF)) return uintWord(AMPLE);
    if (data === DOMAIN_SEPARATOR)
      return domainSeparator({ name: "USDC", version: "2", chainId, verifyingContract });
    return uintWord(settled.has(nonceIn({ data })) ? 1n : 0n);
  }

  /** Returns the `AuthorizationUsed` log of the payment whose nonce is in the filter. Returns no log if it is not settled. */
  function usesIn(filter: unknown) {
    const payment = settled.get(nonceIn(filter));
    return payment === undefined ? [] : logsOf(payment).slice(0, 1);
  }

  return {
    settle(body: string): void {
      const textOf = (name: string) =>
        new RegExp(`"${name}":"(0x[0-9a-fA-F]+|[0-9]+)"`).exec(body)?.[1] ?? "";
      const [asset, from, to] = [textOf("asset"), textOf("from"), textOf("to")];
      const nonce = textOf("nonce");
      settled.set(nonce, { asset, from, to, value: textOf("value"), nonce, block: head() });
    },
    /** Answers a JSON-RPC request or a batch of them. With `late`, a receipt can be read only a block later. */
    rpc(body: string, late = false): string {
      const asked = JSON.parse(body) as Request | Request[];
      const toResponse = ({ id, method, params }: Request) => ({
        jsonrpc: "2.0",
        id,
        result: answer(method, params, late),
      });
      return JSON.stringify(Array.isArray(asked) ? asked.map(toResponse) : toResponse(asked));
    },
  };
}

function placeOf({ asset, nonce, block }: Settled) {
  return { address: asset, blockNumber: hex(block), blockHash: BLOCK_HASH, transactionHash: nonce };
}

/** Builds the logs of a payment: `AuthorizationUsed`, then `Transfer`. */
function logsOf(payment: Settled) {
  const { from, to, value, nonce } = payment;
  const place = placeOf(payment);
  const [payer, payee] = [`0x${addressWord(from)}`, `0x${addressWord(to)}`];
  return [
    { ...place, logIndex: "0x0", data: "0x", topics: [AUTHORIZATION_USED, payer, nonce] },
    { ...place, logIndex: "0x1", data: `0x${uintWord(BigInt(value))}`, topics: [TRANSFER, payer, payee] },
  ];
}

/** Returns the nonce from a log filter or from a call of `authorizationState(address,bytes32)`. It is the last 32 bytes. */
function nonceIn(question: unknown): string {
  const words = JSON.stringify(question).match(/[0-9a-f]{64}(?=")/g);
  return `0x${words?.at(-1) ?? ""}`;
}

function hex(number: number): string {
  return `0x${number.toString(16)}`;
}
