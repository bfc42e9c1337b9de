import { z } from "zod";
import { toQuantity } from "../../../shared/chain/rpc.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { delay } from "../../../shared/platform/time/clock.ts";

const blocks = z.number().int().nonnegative();

/** Behaviour that real nodes and node providers show, but anvil does not. By default the node answers like anvil. */
export const NodeFaults = z.strictObject({
  /** Whether the node knows the tag `finalized`. */
  finalized: z.boolean().default(true),
  /** Number of blocks by which the final block is behind the newest. By default it is the one that anvil calls final. */
  finalizes: blocks.optional(),
  /** Number of recent blocks whose states the node has. A full node, unlike an archive node, deletes older states. */
  states: blocks.optional(),
  /** Whether `eth_call` accepts the hash of a block (EIP-1898). */
  hashes: z.boolean().default(true),
  /** Maximum number of blocks in one request for logs. */
  logRange: blocks.optional(),
  /** Whether the node returns logs. If not, their list is empty, although the node has the blocks and their receipts. */
  logs: z.boolean().default(true),
  /** Whether the node returns a receipt only after another block has followed. */
  receiptsLate: z.boolean().default(false),
  latencyMs: blocks.default(0),
  /**
   * Way in which the node refuses every request, like one that gets too many: with status 429 (`status`) or with a JSON-RPC
   * error (`error`). Undefined if it answers.
   */
  rateLimit: z.enum(["status", "error"]).optional(),
  /** Every third request is answered as by a node that is this many blocks behind, as if several nodes shared the URL. */
  lag: blocks.default(0),
});
export type NodeFaults = z.output<typeof NodeFaults>;

/** A JSON-RPC request. */
export type RpcRequest = { id: unknown; method: string; params: readonly unknown[] };
export type RpcAnswer = { status: number; body: object };

/** Creates a simulated node. It forwards requests to the node at `rpcUrl`, and changes the answers by the current faults. */
export function createNode(rpcUrl: string, faults: () => NodeFaults) {
  let requestCount = 0;

  return async function answer(request: RpcRequest): Promise<RpcAnswer> {
    const current = faults();
    await delay(current.latencyMs);
    if (current.rateLimit === "status") return { status: 429, body: { error: "slow down" } };
    const reply = (outcome: object) => ({
      status: 200,
      body: { jsonrpc: "2.0", id: request.id, ...outcome },
    });
    if (current.rateLimit === "error") return reply(refused(-32_005, "request rate limited"));
    requestCount += 1;
    const newest = BigInt((await query<string>(rpcUrl, "eth_blockNumber", [])) ?? 0);
    const lag = requestCount % 3 === 0 ? BigInt(current.lag) : 0n;
    const head = newest > lag ? newest - lag : 0n;
    return reply(
      await createReplica(
        rpcUrl,
        current,
        head,
      )(request).catch((error) => refused(-32_000, messageOf(error))),
    );
  };
}

type Outcome = { result: unknown } | ReturnType<typeof refused>;

function refused(code: number, message: string) {
  return { error: { code, message } };
}

/** Creates the function that answers one request, as a node would that knows only the blocks up to `head`. */
function createReplica(rpcUrl: string, faults: NodeFaults, head: bigint) {
  async function forward(method: string, params: readonly unknown[]): Promise<Outcome> {
    return post(rpcUrl, method, params);
  }

  async function block([at, ...rest]: readonly unknown[]): Promise<Outcome> {
    const isFinal = at === "finalized";
    if (isFinal && !faults.finalized) return refused(-32_602, "invalid block tag");
    if (isFinal && faults.finalizes === undefined) {
      const final = await query<{ number: string }>(rpcUrl, "eth_getBlockByNumber", [at, false]);
      return forward("eth_getBlockByNumber", [toQuantity(least(BigInt(final?.number ?? 0), head)), ...rest]);
    }
    const finalizes = BigInt(faults.finalizes ?? 0);
    const number = isFinal ? (head > finalizes ? head - finalizes : 0n) : numberOf(at, head);
    return number > head ? { result: null } : forward("eth_getBlockByNumber", [toQuantity(number), ...rest]);
  }

  /** Answers a method that reads the chain's state at block `at`. Its first parameter `of` is a call or an address. */
  async function stateAt(method: string, [of, at]: readonly unknown[]): Promise<Outcome> {
    const number = await numberOfState(at);
    if (number === undefined || number > head) return refused(-32_000, "header not found");
    if (faults.states !== undefined && head - number >= BigInt(faults.states))
      return refused(-32_000, "missing trie node");
    return forward(method, [of, toQuantity(number)]);
  }

  async function numberOfState(at: unknown): Promise<bigint | undefined> {
    if (typeof at !== "object") return numberOf(at, head);
    if (!faults.hashes) return undefined;
    const { blockHash } = at as { blockHash: string };
    const found = await query<{ number: string } | null>(rpcUrl, "eth_getBlockByHash", [blockHash, false]);
    return found === null ? undefined : BigInt(found.number);
  }

  async function logs([filter]: readonly unknown[]): Promise<Outcome> {
    const { fromBlock, toBlock, ...rest } = filter as { fromBlock: string; toBlock: string };
    if (faults.logRange !== undefined && BigInt(toBlock) - BigInt(fromBlock) >= BigInt(faults.logRange))
      return refused(-32_600, "block range too large");
    const to = least(BigInt(toBlock), head);
    if (!faults.logs || BigInt(fromBlock) > to) return { result: [] };
    return forward("eth_getLogs", [{ ...rest, fromBlock, toBlock: toQuantity(to) }]);
  }

  async function receipt(params: readonly unknown[]): Promise<Outcome> {
    const result = await query<{ blockNumber: string } | null>(rpcUrl, "eth_getTransactionReceipt", params);
    const last = faults.receiptsLate ? head - 1n : head;
    return { result: result !== null && BigInt(result.blockNumber) <= last ? result : null };
  }

  return ({ method, params }: RpcRequest): Promise<Outcome> => {
    switch (method) {
      case "eth_getBlockByNumber":
        return block(params);
      case "eth_call":
      case "eth_getTransactionCount":
        return stateAt(method, params);
      case "eth_getLogs":
        return logs(params);
      case "eth_getTransactionReceipt":
        return receipt(params);
      default:
        return forward(method, params);
    }
  };
}

function numberOf(at: unknown, head: bigint): bigint {
  return typeof at === "string" && at.startsWith("0x") ? BigInt(at) : head;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

async function post(rpcUrl: string, method: string, params: readonly unknown[]): Promise<Outcome> {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const answer = await fetch(rpcUrl, { method: "POST", body, headers });
  const { error, result } = (await answer.json()) as {
    error?: { code: number; message: string };
    result: unknown;
  };
  return error === undefined ? { result } : { error };
}

/** Sends a request to the node at `rpcUrl` and returns the result. If the node answers with an error, throws it. */
async function query<Result>(rpcUrl: string, method: string, params: readonly unknown[]): Promise<Result> {
  const outcome = await post(rpcUrl, method, params);
  if ("error" in outcome) throw new Error(outcome.error.message);
  return outcome.result as Result;
}
