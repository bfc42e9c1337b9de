import type { Clock } from "../platform/time/clock.ts";
import { addressWord, type Hex, keccak256Hex } from "./encoding.ts";
import { type Log, Logs, type Rpc, toQuantity } from "./rpc.ts";
import { RateLimited, Refused } from "./rpc-errors.ts";

/** Limit on the blocks of one request. Most providers refuse more. */
const SPAN_MAX = 10_000n;

type LogFilter = {
  address: Hex;
  topics: readonly (Hex | readonly Hex[] | null)[];
  fromBlock: bigint;
  /** Inclusive. */
  toBlock: bigint;
  /** Aborted once the logs are no longer wanted. The search then throws. */
  signal?: AbortSignal | undefined;
};

/** The matching logs in the block range of one request. `toBlock` is its last block. */
type LogPage = { logs: Log[]; toBlock: bigint };

/** Yields the matching logs, oldest first. */
export type LogSearch = (filter: LogFilter) => AsyncGenerator<LogPage>;

/** Pause after the node limits the rate of requests. It doubles with each further rate limit. */
const BACK_OFF_MS_MIN = 1000;
const BACK_OFF_MS_MAX = 60_000;

/**
 * Creates a search that requests block ranges as large as the node allows. Providers accept 10 to 10,000 blocks per request, and
 * some limit the number of logs instead. The search halves a refused range. The next search starts with up to twice the last
 * accepted size. While the node limits the rate, searches fail without a request.
 */
export function createLogSearch(rpc: Rpc, clock: Clock): LogSearch {
  let acceptedSpan = SPAN_MAX;
  let backOffMs = 0;
  let retryAt = 0;

  async function queryLogs(params: readonly unknown[], signal: AbortSignal | undefined): Promise<Log[]> {
    const queriedAt = clock();
    if (queriedAt < retryAt)
      throw new RateLimited("eth_getLogs: the node limits the rate, so the next request is delayed");
    try {
      const logs = await rpc({ method: "eth_getLogs", params, answer: Logs, signal });
      backOffMs = 0;
      return logs;
    } catch (error) {
      // If several requests were in flight together, only the first rate limit lengthens the pause.
      if (error instanceof RateLimited && queriedAt >= retryAt) {
        backOffMs = Math.min(BACK_OFF_MS_MAX, Math.max(BACK_OFF_MS_MIN, 2 * backOffMs));
        retryAt = clock() + backOffMs;
      }
      throw error;
    }
  }

  return async function* search({ address, topics, fromBlock, toBlock, signal }) {
    let span = min(SPAN_MAX, acceptedSpan * 2n);
    let from = fromBlock;
    while (from <= toBlock) {
      signal?.throwIfAborted();
      const to = min(toBlock, from + span - 1n);
      const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to) };
      const logs = await queryLogs([{ address, topics, ...range }], signal).catch((error: unknown) => {
        if (!(error instanceof Refused) || from === to) throw error;
        return undefined;
      });
      if (logs === undefined) {
        span = (to - from + 1n) / 2n;
        acceptedSpan = span;
        continue;
      }
      if (to - from + 1n > acceptedSpan) acceptedSpan = to - from + 1n;
      from = to + 1n;
      yield { logs, toBlock: to };
    }
  };
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function addressTopic(address: string): Hex {
  return `0x${addressWord(address)}`;
}

/** The address in a topic, in lower case. */
export function addressIn(topic: Hex): Hex {
  return `0x${topic.slice(-40)}`;
}

/** The first topic of an event's logs, by the event's signature. */
export function topicOf(signature: string): Hex {
  return keccak256Hex(Buffer.from(signature));
}
