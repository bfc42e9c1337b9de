import { z } from "zod";
import { createHttpClient, isTimeout } from "../http/client.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import type { AppError } from "../platform/errors/app-error.ts";
import { cut } from "../platform/text/cut.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { delay } from "../platform/time/clock.ts";
import type { Hex } from "./encoding.ts";
import {
  errorIn,
  isRetryable,
  Refused,
  Reverted,
  refusal,
  refusalOf,
  TooLong,
  unavailable,
} from "./rpc-errors.ts";

/** Limit on the bytes of an answer, larger than all usual receipts and logs. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const EXCERPT_CHARS = 200;
/**
 * Minimum length of a part of the node's URL that counts as an API key, and is removed from error messages. Shorter parts are
 * words such as `v1`.
 */
const KEY_CHARS_MIN = 8;

type Call<Schema extends z.ZodType> = {
  method: string;
  params: readonly unknown[];
  answer: Schema;
  /** Overrides the default limit. A longer answer is not read to its end. */
  answerBytesMax?: number | undefined;
  /** Aborted when the answer is no longer wanted. */
  signal?: AbortSignal | undefined;
};

/**
 * Sends one request to an EVM node, without retries. Throws `payment.unavailable`. No reason and no cause contains the node's URL, because
 * the URL often contains the provider's API key.
 */
export type Rpc = <Schema extends z.ZodType>(call: Call<Schema>) => Promise<z.output<Schema>>;

type NodeOptions = { url: Secret; timeoutMs: number; answerBytesMax?: number | undefined };

/** An unchecked JSON-RPC response. Both members are missing if the response is not a JSON object. */
export type RpcResponse = { error?: unknown; result?: unknown };

type Request = { jsonrpc: "2.0"; id: number; method: string; params: readonly unknown[] };

/** Limits of one request that differ from the defaults. */
type Limits = { timeoutMs?: number; answerBytesMax?: number; signal?: AbortSignal | undefined };

/**
 * Sends requests to one node and reads its responses. It does not retry or follow redirects. One deadline covers a request and its
 * response.
 */
export type NodeClient = {
  readonly timeoutMs: number;
  toRequest(call: Pick<Call<z.ZodType>, "method" | "params">): Request;
  /** Throws `payment.unavailable`. */
  post(
    body: Request | readonly Request[],
    given: Limits & { what: string; span?: SpanName },
  ): Promise<{ status: number; answer: unknown }>;
  /** The result of this call. Throws `payment.unavailable` for any other response. */
  resultIn<Schema extends z.ZodType>(
    call: Call<Schema>,
    status: number,
    response: RpcResponse,
  ): z.output<Schema>;
};

/** The span of a request, without the node's address: the host name may contain an account name. */
export function spanOf(method: string) {
  return { name: method, attributes: { "rpc.system": "jsonrpc", "rpc.method": method } };
}

type SpanName = ReturnType<typeof spanOf>;

export function createNodeClient({
  url,
  timeoutMs,
  answerBytesMax = ANSWER_BYTES_MAX,
}: NodeOptions): NodeClient {
  const base = new URL(url.reveal());
  const path = `${base.pathname}${base.search}`;
  const headers = { ...basicAuthOf(base), accept: "application/json", "content-type": "application/json" };
  const client = createHttpClient({ base, headers, answerBytesMax });
  const redact = redactor(url);
  let id = 0;

  return {
    timeoutMs,
    toRequest({ method, params }) {
      id += 1;
      return { jsonrpc: "2.0", id, method, params };
    },
    async post(request, { what, ...limits }) {
      const body = JSON.stringify(request);
      const { status, text } = await client.exchange({ path, body, timeoutMs, ...limits }).catch((thrown) => {
        throw toFailure(what, thrown, timeoutMs);
      });
      if (text === undefined) throw new TooLong(`${what}: the answer is too long`);
      return { status, answer: parseJson(text) };
    },
    resultIn({ method, answer }, status, response) {
      const error = errorIn(response);
      if (error !== undefined && status !== 429)
        throw refusalOf(error, `${method}: error ${error.code}: ${redact(error.message)}`);
      if (status !== 200) throw refusal(method, status);
      const parsed = answer.safeParse(response.result);
      if (parsed.success) return parsed.data;
      throw unavailable(`${method}: the node's answer cannot be parsed`);
    },
  };
}

/** JSON-RPC over HTTP: one HTTP request for each call. */
export function createRpc(options: NodeOptions): Rpc {
  return rpcOn(createNodeClient(options));
}

export function rpcOn(node: NodeClient): Rpc {
  return async (call) => {
    const { method, answerBytesMax, signal } = call;
    const given = { what: method, span: spanOf(method), signal, ...(answerBytesMax && { answerBytesMax }) };
    const { status, answer } = await node.post(node.toRequest(call), given);
    return node.resultIn(call, status, (answer as object | null | undefined) ?? {});
  };
}

function withDeadline(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const late = AbortSignal.timeout(ms);
  return signal === undefined ? late : AbortSignal.any([late, signal]);
}

/** User and password of a URL as a header (RFC 7617). */
function basicAuthOf({ username, password }: URL): Record<string, string> {
  if (username === "" && password === "") return {};
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

/** Describes the failure without the library's message, because that contains the node's address. */
function toFailure(method: string, thrown: unknown, timeoutMs: number): AppError {
  if (isTimeout(thrown)) return unavailable(`${method}: no answer within ${timeoutMs} ms`);
  return unavailable(`${method}: the exchange with the node failed (${codeOf(thrown)})`);
}

const TRIES = 6;
const PAUSE_MS = 25;

/**
 * Retries a request while the node fails to answer it, within `timeoutMs` and with at most six requests in all. Rate-limited
 * requests are not retried. Requests that the node refused are retried only after an internal error of the node (`isRetryable`).
 * While `isUnreachable` returns true, nothing is retried, so that no caller waits for a node that is known to be away.
 */
export function retryUnanswered(
  rpc: Rpc,
  { timeoutMs, isUnreachable = () => false }: { timeoutMs: number; isUnreachable?: () => boolean },
): Rpc {
  return async (call) => {
    const until = performance.now() + timeoutMs;
    let { signal } = call;
    for (let tries = 1; ; tries++) {
      try {
        return await rpc({ ...call, signal });
      } catch (error) {
        const leftMs = until - performance.now();
        const isOver = tries === TRIES || leftMs <= 0 || isUnreachable() || signal?.aborted;
        if (isOver || !isRetryable(error, call.method)) throw error;
        // The first request has only the deadline that `rpc` sets itself. A second timer would cost more than all other work on
        // the request.
        signal = withDeadline(Math.ceil(leftMs), call.signal);
      }
      await delay(PAUSE_MS * 2 ** (tries - 1));
    }
  };
}

/** The code of a network error, such as ECONNREFUSED. Only codes are safe to report. Some errors have the code in their cause. */
function codeOf(cause: unknown): string {
  const { code, cause: deeper } = (cause ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === "string") return code;
  return deeper === undefined ? "no reason given" : codeOf(deeper);
}

/** Finds URLs. The lookbehind keeps the search linear, even in a very long word of a node's message. */
const URLS = /(?<![a-z])[a-z]+:\/\/\S+/gi;

/**
 * Removes the URL and API keys from a node's error message. Nodes often repeat the URL or the key of the caller in their errors.
 */
function redactor(secret: Secret): (text: string) => string {
  const url = new URL(secret.reveal());
  const parts = [url.password, url.username, ...url.pathname.split("/"), ...url.searchParams.values()];
  const keys = parts.filter((part) => part.length >= KEY_CHARS_MIN);
  return (text) => {
    let plain = text.replaceAll(URLS, "[url]").replaceAll(url.host, "[host]");
    for (const key of keys)
      plain = plain.replaceAll(key, "[key]").replaceAll(decodeURIComponent(key), "[key]");
    return cut(plain, EXCERPT_CHARS);
  };
}

const hex = z
  .string()
  .regex(/^0x[0-9a-fA-F]*$/)
  .transform((text) => text.toLowerCase() as Hex);

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform(BigInt);

/** The fields of a block that the judgement of a payment needs (evidence.ts). */
export const Block = z.object({
  number: quantity,
  hash: hex,
  timestamp: quantity,
  /** Absent on a chain without EIP-1559. */
  baseFeePerGas: quantity.optional(),
});
export type Block = z.infer<typeof Block>;

/** A log: one event that a contract emitted, as eth_getLogs and receipts contain it. */
export const Log = z.object({
  address: hex,
  topics: z.array(hex),
  data: hex,
  blockNumber: quantity,
  blockHash: hex,
  transactionHash: hex,
  logIndex: quantity.transform(Number),
});
export type Log = z.infer<typeof Log>;

export const Logs = z.array(Log);

/** Null if the node knows no such transaction in its chain. */
export const Receipt = z.nullable(
  z.object({
    status: quantity,
    blockNumber: quantity,
    blockHash: hex,
    transactionHash: hex,
    logs: Logs,
  }),
);
export type Receipt = NonNullable<z.infer<typeof Receipt>>;

/** The fields of a transaction that say what it calls. `to` is null if the transaction creates a contract. */
const Transaction = z.object({ to: z.nullable(hex), input: hex });
export type Transaction = z.infer<typeof Transaction>;

export const ChainId = quantity;

export function toQuantity(value: bigint): Hex {
  return `0x${value.toString(16)}`;
}

/**
 * A contract call. `from` is the caller; by default the zero address. `gas` limits the gas; by default the node's limit applies. An answer
 * longer than `answerBytesMax` throws `TooLong`.
 */
type EthCall = { from?: Hex; to: Hex; data: Hex; gas?: bigint; answerBytesMax?: number };

/** The block whose state is read. A block named by its hash must still be in the chain (EIP-1898). */
type StateBlock = bigint | "latest" | { blockHash: Hex };

/** Reads of a node's blocks, transactions and contracts. */
export type Reads = {
  /** Throws `Refused` if the node has no such block or does not know the tag `finalized`. */
  block(at: "latest" | "finalized" | bigint): Promise<Block>;
  /** Null if the node knows no such transaction in its chain. */
  receipt(transaction: Hex): Promise<Receipt | null>;
  /** A transaction that is in a block. Throws `payment.unavailable` if the node does not know the transaction. */
  transaction(hash: Hex): Promise<Transaction>;
  /** The code at this address in the latest block; `0x` if there is no contract. */
  code(address: Hex): Promise<Hex>;
  /** The nonce that this account's first transaction after this block must have. */
  transactionCount(address: Hex, at: StateBlock): Promise<bigint>;
  /** Runs `eth_call` at this block. */
  call(call: EthCall, at: StateBlock): Promise<Hex>;
};

export function createReads(rpc: Rpc): Reads {
  return {
    async block(at) {
      const params = [toBlockParam(at), false];
      const block = await rpc({ method: "eth_getBlockByNumber", params, answer: z.nullable(Block) });
      if (block === null) throw new Refused(`eth_getBlockByNumber: the node has no block ${at}`);
      return block;
    },
    receipt: (hash) => rpc({ method: "eth_getTransactionReceipt", params: [hash], answer: Receipt }),
    async transaction(hash) {
      const answer = z.nullable(Transaction);
      const transaction = await rpc({ method: "eth_getTransactionByHash", params: [hash], answer });
      if (transaction === null) throw unavailable(`eth_getTransactionByHash: the node does not know ${hash}`);
      return transaction;
    },
    code: (address) => rpc({ method: "eth_getCode", params: [address, "latest"], answer: hex }),
    transactionCount: (address, at) =>
      rpc({ method: "eth_getTransactionCount", params: [address, stateBlock(at)], answer: quantity }),
    call: ({ gas, answerBytesMax, ...call }, at) => {
      const transaction = gas === undefined ? call : { ...call, gas: toQuantity(gas) };
      return rpc({ method: "eth_call", params: [transaction, stateBlock(at)], answer: hex, answerBytesMax });
    },
  };
}

/** Runs `eth_call` at the latest block. Undefined if the contract has no such function. Throws if the node cannot answer. */
export function callIfImplemented(reads: Reads, call: { to: Hex; data: Hex }): Promise<Hex | undefined> {
  return reads.call(call, "latest").catch((error: unknown) => {
    if (!(error instanceof Reverted)) throw error;
    return undefined;
  });
}

/** Whether the contract has this function, and the function returns one word. */
export async function hasFunction(reads: Reads, { to, data }: { to: Hex; data: Hex }): Promise<boolean> {
  return (await callIfImplemented(reads, { to, data }))?.length === 66;
}

function stateBlock(at: StateBlock) {
  return typeof at === "object" ? { ...at, requireCanonical: true } : toBlockParam(at);
}

function toBlockParam(block: string | bigint): string {
  return typeof block === "bigint" ? toQuantity(block) : block;
}

/** Creates a function that runs `eth_call` at the latest block of any chain. It throws `payment.unavailable`. */
export function createEthCall({ rpcUrl, timeoutMs }: { rpcUrl: Secret; timeoutMs: number }) {
  const reads = createReads(retryUnanswered(createRpc({ url: rpcUrl, timeoutMs }), { timeoutMs }));
  return (call: { to: Hex; data: Hex }): Promise<Hex> => reads.call(call, "latest");
}
