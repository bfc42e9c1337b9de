import { z } from "zod";
import { createHttpClient, isTimeout } from "../http/client.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { cut } from "../platform/text/cut.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { delay } from "../platform/time/clock.ts";
import type { Hex } from "./encoding.ts";

/** Beyond the receipts and logs of all that is usual. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const EXCERPT_CHARS = 200;
/** Shorter parts of the URL are words like `v1`, not keys. */
const KEY_CHARS_MIN = 8;

type Call<Schema extends z.ZodType> = {
  method: string;
  params: readonly unknown[];
  answer: Schema;
  /** In place of the usual. A longer answer is not read to its end. */
  answerBytesMax?: number | undefined;
  /** Aborted once nobody wants the answer any more. */
  signal?: AbortSignal | undefined;
};

/**
 * Asks an EVM node once. Throws `payment.unavailable`. No reason and no cause contains the node's URL, because that
 * commonly contains the provider's key.
 */
export type Rpc = <Schema extends z.ZodType>(call: Call<Schema>) => Promise<z.output<Schema>>;

/** The node has not answered what it was asked. */
class Unanswered extends AppError {
  constructor(reason: string) {
    super("payment.unavailable", { reason });
  }
}

/** The node answers no more for a while. The same question may be asked again later. */
export class RateLimited extends Unanswered {}

/** The node serves another chain than it should. */
export class WrongChain extends Unanswered {}

/** The node answered with a refusal: it may answer a smaller question. */
export class Refused extends Unanswered {}

/** A contract took the call back, or has no such function. */
export class Reverted extends Refused {}

/** The node says that it has failed, and not that anything is wrong with the question (JSON-RPC -32603). */
class InternalError extends Refused {}

/** The answer is longer than anybody wants to read; it will be the next time too. */
export class TooLong extends Refused {}

export function unavailable(reason: string): AppError {
  return new Unanswered(reason);
}

export function unlessRefused(error: unknown): undefined {
  if (!(error instanceof Refused)) throw error;
}

export function unlessTooLong(error: unknown): "too long" {
  if (error instanceof TooLong) return "too long";
  throw error;
}

/** JSON-RPC over HTTP: one request for each call, no batches, no retries, no redirects, a deadline on the whole exchange. */
export function createRpc({
  url,
  timeoutMs,
  answerBytesMax = ANSWER_BYTES_MAX,
}: {
  url: Secret;
  timeoutMs: number;
  answerBytesMax?: number | undefined;
}): Rpc {
  const base = new URL(url.reveal());
  const path = `${base.pathname}${base.search}`;
  const headers = { ...basicOf(base), accept: "application/json", "content-type": "application/json" };
  const client = createHttpClient({ base, headers, answerBytesMax });
  const redact = redactor(url);
  let id = 0;

  return async ({ method, params, answer, answerBytesMax: bytesMax = answerBytesMax, signal: unwanted }) => {
    id += 1;
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
    const signal = withDeadline(timeoutMs, unwanted);
    // The node's address is left out: its name may be that of an account.
    const span = { name: method, attributes: { "rpc.system": "jsonrpc", "rpc.method": method } };
    const { status, text } = await client
      .exchange({ path, body, signal, answerBytesMax: bytesMax, span })
      .catch((thrown) => {
        throw toFailure(method, thrown, timeoutMs);
      });
    if (text === undefined) throw new TooLong(`${method}: the answer is too long`);
    const { error, result } = objectIn(text);
    if (typeof error === "object" && error !== null && status !== 429)
      throw refusalOf(error, `${method}: error ${error.code}: ${redact(String(error.message))}`);
    if (status !== 200) throw refusal(method, status);
    const parsed = answer.safeParse(result);
    if (parsed.success) return parsed.data;
    throw unavailable(`${method}: the node's answer cannot be parsed`);
  };
}

function withDeadline(ms: number, signal: AbortSignal | undefined): AbortSignal {
  const late = AbortSignal.timeout(ms);
  return signal === undefined ? late : AbortSignal.any([late, signal]);
}

/** User and password of a URL as a header (RFC 7617). */
function basicOf({ username, password }: URL): Record<string, string> {
  if (username === "" && password === "") return {};
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

type RpcError = { code?: unknown; message?: unknown };

/** What is no JSON object has neither. */
function objectIn(text: string): { error?: RpcError; result?: unknown } {
  return (parseJson(text) as object | null | undefined) ?? {};
}

/** The failure in our own words: the library's contain the address. */
function toFailure(method: string, thrown: unknown, timeoutMs: number): AppError {
  if (isTimeout(thrown)) return unavailable(`${method}: no answer within ${timeoutMs} ms`);
  return unavailable(`${method}: the exchange with the node failed (${codeOf(thrown)})`);
}

/** Some statuses are about the caller, or the server's health, and not about the question; but too many logs may be any failure. */
function refusal(method: string, status: number): AppError {
  const reason = `${method}: status ${status}`;
  if (status === 429) return new RateLimited(reason);
  if (method === "eth_getLogs" && ![401, 403, 404].includes(status)) return new Refused(reason);
  return [400, 413, 422].includes(status) ? new Refused(reason) : unavailable(reason);
}

function refusalOf(error: RpcError, reason: string): AppError {
  if (isRateLimit(error)) return new RateLimited(reason);
  if (isRevert(error)) return new Reverted(reason);
  return error.code === -32_603 ? new InternalError(reason) : new Refused(reason);
}

const TRIES = 6;
const PAUSE_MS = 25;

/**
 * Asks again, up to six times within `timeoutMs`, if the node fails to answer at all. What it refuses, or limits the rate of, is not asked
 * again, and neither is anything while `isAway`: a node that nobody reaches is not waited for.
 */
export function askAgain(
  rpc: Rpc,
  { timeoutMs, isAway = () => false }: { timeoutMs: number; isAway?: () => boolean },
): Rpc {
  return async (call) => {
    const until = performance.now() + timeoutMs;
    let { signal } = call;
    for (let tries = 1; ; tries++) {
      try {
        return await rpc({ ...call, signal });
      } catch (error) {
        const leftMs = until - performance.now();
        const isOver = tries === TRIES || leftMs <= 0 || isAway() || signal?.aborted;
        if (isOver || !isPassing(error, call.method)) throw error;
        // Only now: a second deadline for each question would cost more than the rest of asking it.
        signal = withDeadline(Math.ceil(leftMs), call.signal);
      }
      await delay(PAUSE_MS * 2 ** (tries - 1));
    }
  };
}

/** Whether the same question may be answered the next moment. A node that fails at eth_getLogs was asked for too much. */
function isPassing(error: unknown, method: string): boolean {
  if (error instanceof InternalError) return method !== "eth_getLogs";
  return error instanceof Error && error.constructor === Unanswered;
}

const HALTS =
  /revert|opcode|invalid ?jump|out ?of ?(gas|offset|bounds)|stack ?(limit|underflow|overflow)|VM (execution|exception)/i;

/** Most nodes have code 3 or say "execution reverted"; some speak of the VM. What halts otherwise has words of its own. */
function isRevert({ code, message }: RpcError): boolean {
  return code === 3 || HALTS.test(String(message));
}

/**
 * Whether a JSON-RPC error says that too much was asked at a time. Providers have no code of their own for it: -32005 is "limit
 * exceeded" in EIP-1474, and some use it for too many logs too.
 */
function isRateLimit({ code, message }: RpcError): boolean {
  const text = String(message);
  if (/rate.?limit|too many requests|requests? (limit|per)|compute units|capacity|throttl/i.test(text))
    return true;
  return code === 429 || (code === -32005 && !/range|results|logs|size|blocks/i.test(text));
}

/** Only codes such as ECONNREFUSED are safe to repeat; some errors have them one level deeper. */
function codeOf(cause: unknown): string {
  const { code, cause: deeper } = (cause ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === "string") return code;
  return deeper === undefined ? "no reason given" : codeOf(deeper);
}

/** Nodes repeat in their errors what they were asked, and by whom. */
function redactor(secret: Secret): (text: string) => string {
  const url = new URL(secret.reveal());
  const parts = [url.password, url.username, ...url.pathname.split("/"), ...url.searchParams.values()];
  const keys = parts.filter((part) => part.length >= KEY_CHARS_MIN);
  return (text) => {
    let plain = text.replaceAll(/[a-z]+:\/\/\S+/gi, "[url]").replaceAll(url.host, "[host]");
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

/** The part of a block that evidence needs. */
export const Block = z.object({ number: quantity, hash: hex, timestamp: quantity });
export type Block = z.infer<typeof Block>;

/** A log of the contract ABI, as eth_getLogs and receipts have it. */
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

/** The parts of a transaction that say what it calls. `to` is null if it makes a contract. */
const Transaction = z.object({ to: z.nullable(hex), input: hex });
export type Transaction = z.infer<typeof Transaction>;

export const ChainId = quantity;

export function toQuantity(value: bigint): Hex {
  return `0x${value.toString(16)}`;
}

/**
 * `gas` is how much it may use; without it as much as the node allows. What answers with more than `answerBytesMax`, where that is given,
 * throws `TooLong`.
 */
type EthCall = { to: Hex; data: Hex; gas?: bigint; answerBytesMax?: number };

/** The questions that are asked of a node about its blocks. */
export type Reads = {
  /** Throws `Refused` if the node has no such block or, for `finalized`, does not know the tag. */
  block(at: "latest" | "finalized" | bigint): Promise<Block>;
  /** Null if the node knows no such transaction in its chain. */
  receipt(transaction: Hex): Promise<Receipt | null>;
  /** A transaction that is in a block. Throws `payment.unavailable` if the node does not know it. */
  transaction(hash: Hex): Promise<Transaction>;
  /** The code at this address in the latest block; `0x` if it is no contract. */
  code(address: Hex): Promise<Hex>;
  /** `eth_call` at this block. One that is named by its hash must still be in the chain (EIP-1898). */
  call(call: EthCall, at: bigint | "latest" | { blockHash: Hex }): Promise<Hex>;
};

export function createReads(rpc: Rpc): Reads {
  return {
    async block(at) {
      const params = [named(at), false];
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
    call: ({ gas, answerBytesMax, ...call }, at) => {
      const block = typeof at === "object" ? { ...at, requireCanonical: true } : named(at);
      const transaction = gas === undefined ? call : { ...call, gas: toQuantity(gas) };
      return rpc({ method: "eth_call", params: [transaction, block], answer: hex, answerBytesMax });
    },
  };
}

/** `eth_call` at the latest block. Undefined if the contract has no such function; a node that cannot answer throws. */
export function callIfAny(reads: Reads, call: { to: Hex; data: Hex }): Promise<Hex | undefined> {
  return reads.call(call, "latest").catch((error: unknown) => {
    if (!(error instanceof Reverted)) throw error;
    return undefined;
  });
}

/** Whether the contract has this function, which returns a word. */
export async function hasFunction(reads: Reads, { to, data }: { to: Hex; data: Hex }): Promise<boolean> {
  return (await callIfAny(reads, { to, data }))?.length === 66;
}

function named(block: string | bigint): string {
  return typeof block === "bigint" ? toQuantity(block) : block;
}

/** `eth_call` at the latest block of any chain. Throws `payment.unavailable`. */
export function createEthCall({ rpcUrl, timeoutMs }: { rpcUrl: Secret; timeoutMs: number }) {
  const reads = createReads(askAgain(createRpc({ url: rpcUrl, timeoutMs }), { timeoutMs }));
  return (call: { to: Hex; data: Hex }): Promise<Hex> => reads.call(call, "latest");
}
