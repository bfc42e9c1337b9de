import { z } from "zod";
import { toQuantity } from "../../../shared/chain/rpc.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { delay } from "../../../shared/platform/time/clock.ts";

const blocks = z.number().int().nonnegative();

/** What a real node or provider is like, and the chain's own is not. */
export const NodeIlls = z.strictObject({
  /** Whether it knows the tag `finalized`. */
  finalized: z.boolean().default(true),
  /** So many blocks behind the head is its final one. Without it, as the chain has it. */
  finalizes: blocks.optional(),
  /** It knows the states of so many of the newest blocks, as a full node does. */
  states: blocks.optional(),
  /** Whether `eth_call` takes the hash of a block (EIP-1898). */
  hashes: z.boolean().default(true),
  /** It gives logs of so many blocks at a time. */
  logRange: blocks.optional(),
  /** Without them it answers with no logs, though it has the blocks and their receipts. */
  logs: z.boolean().default(true),
  /** It tells of a receipt only once another block is on top. */
  receiptsLate: z.boolean().default(false),
  latencyMs: blocks.default(0),
  /** It refuses everything, as one of which too much is asked: by status 429 or by an error of JSON-RPC. */
  rateLimit: z.enum(["status", "error"]).optional(),
  /** Several nodes are behind its URL, and one request in three meets one that is so many blocks behind. */
  lag: blocks.default(0),
});
export type NodeIlls = z.output<typeof NodeIlls>;

/** A request of JSON-RPC. */
export type RpcRequest = { id: unknown; method: string; params: readonly unknown[] };
export type RpcAnswer = { status: number; body: object };

/** Answers as the node at `rpcUrl`, but for the ills that it has at the time. */
export function createNode(rpcUrl: string, ills: () => NodeIlls) {
  let asked = 0;

  return async function answer(request: RpcRequest): Promise<RpcAnswer> {
    const its = ills();
    await delay(its.latencyMs);
    if (its.rateLimit === "status") return { status: 429, body: { error: "slow down" } };
    const reply = (outcome: object) => ({
      status: 200,
      body: { jsonrpc: "2.0", id: request.id, ...outcome },
    });
    if (its.rateLimit === "error") return reply(refused(-32_005, "request rate limited"));
    asked += 1;
    const newest = BigInt((await ask<string>(rpcUrl, "eth_blockNumber", [])) ?? 0);
    const lag = asked % 3 === 0 ? BigInt(its.lag) : 0n;
    const head = newest > lag ? newest - lag : 0n;
    return reply(
      await createReplica(rpcUrl, its, head)(request).catch((error) => refused(-32_000, messageOf(error))),
    );
  };
}

type Outcome = { result: unknown } | ReturnType<typeof refused>;

function refused(code: number, message: string) {
  return { error: { code, message } };
}

/** One of the nodes behind the URL: it knows the blocks up to `head`. */
function createReplica(rpcUrl: string, ills: NodeIlls, head: bigint) {
  async function forward(method: string, params: readonly unknown[]): Promise<Outcome> {
    return post(rpcUrl, method, params);
  }

  async function block([at, ...rest]: readonly unknown[]): Promise<Outcome> {
    const isFinal = at === "finalized";
    if (isFinal && !ills.finalized) return refused(-32_602, "invalid block tag");
    if (isFinal && ills.finalizes === undefined) {
      const final = await ask<{ number: string }>(rpcUrl, "eth_getBlockByNumber", [at, false]);
      return forward("eth_getBlockByNumber", [toQuantity(least(BigInt(final?.number ?? 0), head)), ...rest]);
    }
    const finalizes = BigInt(ills.finalizes ?? 0);
    const number = isFinal ? (head > finalizes ? head - finalizes : 0n) : numberOf(at, head);
    return number > head ? { result: null } : forward("eth_getBlockByNumber", [toQuantity(number), ...rest]);
  }

  async function call([call, at]: readonly unknown[]): Promise<Outcome> {
    const number = await numberOfState(at);
    if (number === undefined || number > head) return refused(-32_000, "header not found");
    if (ills.states !== undefined && head - number >= BigInt(ills.states))
      return refused(-32_000, "missing trie node");
    return forward("eth_call", [call, toQuantity(number)]);
  }

  async function numberOfState(at: unknown): Promise<bigint | undefined> {
    if (typeof at !== "object") return numberOf(at, head);
    if (!ills.hashes) return undefined;
    const { blockHash } = at as { blockHash: string };
    const found = await ask<{ number: string } | null>(rpcUrl, "eth_getBlockByHash", [blockHash, false]);
    return found === null ? undefined : BigInt(found.number);
  }

  async function logs([filter]: readonly unknown[]): Promise<Outcome> {
    const { fromBlock, toBlock, ...rest } = filter as { fromBlock: string; toBlock: string };
    if (ills.logRange !== undefined && BigInt(toBlock) - BigInt(fromBlock) >= BigInt(ills.logRange))
      return refused(-32_600, "block range too large");
    const to = least(BigInt(toBlock), head);
    if (!ills.logs || BigInt(fromBlock) > to) return { result: [] };
    return forward("eth_getLogs", [{ ...rest, fromBlock, toBlock: toQuantity(to) }]);
  }

  async function receipt(params: readonly unknown[]): Promise<Outcome> {
    const result = await ask<{ blockNumber: string } | null>(rpcUrl, "eth_getTransactionReceipt", params);
    const last = ills.receiptsLate ? head - 1n : head;
    return { result: result !== null && BigInt(result.blockNumber) <= last ? result : null };
  }

  return ({ method, params }: RpcRequest): Promise<Outcome> => {
    switch (method) {
      case "eth_getBlockByNumber":
        return block(params);
      case "eth_call":
        return call(params);
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

/** Throws what the chain's own node says if it refuses. */
async function ask<Result>(rpcUrl: string, method: string, params: readonly unknown[]): Promise<Result> {
  const outcome = await post(rpcUrl, method, params);
  if ("error" in outcome) throw new Error(outcome.error.message);
  return outcome.result as Result;
}
