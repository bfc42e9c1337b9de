import type { Clock } from "../platform/time/clock.ts";
import { addressWord, type Hex, keccak256Hex } from "./encoding.ts";
import { type Log, Logs, RateLimited, Refused, type Rpc, toQuantity } from "./rpc.ts";

/** Most providers refuse more blocks than this at once. */
const SPAN_MAX = 10_000n;

type LogFilter = {
  address: Hex;
  topics: readonly (Hex | readonly Hex[] | null)[];
  fromBlock: bigint;
  /** Inclusive. */
  toBlock: bigint;
  /** Aborted once nobody wants the logs any more: the search throws. */
  signal?: AbortSignal | undefined;
};

/** What a range of blocks has that was asked for at once. `toBlock` is its last. */
type LogPage = { logs: Log[]; toBlock: bigint };

/** Yields the matching logs, the oldest first. */
export type LogSearch = (filter: LogFilter) => AsyncGenerator<LogPage>;

/** A node that limits the rate is left alone for so long, and for twice as long each time it does so again. */
const BACK_OFF_MS_MIN = 1000;
const BACK_OFF_MS_MAX = 60_000;

/**
 * Searches block ranges as large as the node allows: providers take 10 to 10,000 blocks at once, and some limit the number
 * of logs instead. A refused range is halved, and the next search starts near the size that was taken last. While the node limits the
 * rate, searches fail without asking it.
 */
export function createLogSearch(rpc: Rpc, clock: Clock): LogSearch {
  let taken = SPAN_MAX;
  let backOffMs = 0;
  let askAgainAt = 0;

  async function ask(params: readonly unknown[], signal: AbortSignal | undefined): Promise<Log[]> {
    const askedAt = clock();
    if (askedAt < askAgainAt)
      throw new RateLimited("eth_getLogs: the node limits the rate, so the next request is delayed");
    try {
      const logs = await rpc({ method: "eth_getLogs", params, answer: Logs, signal });
      backOffMs = 0;
      return logs;
    } catch (error) {
      // Of several questions that were under way together, the first refusal counts.
      if (error instanceof RateLimited && askedAt >= askAgainAt) {
        backOffMs = Math.min(BACK_OFF_MS_MAX, Math.max(BACK_OFF_MS_MIN, 2 * backOffMs));
        askAgainAt = clock() + backOffMs;
      }
      throw error;
    }
  }

  return async function* search({ address, topics, fromBlock, toBlock, signal }) {
    let span = min(SPAN_MAX, taken * 2n);
    let from = fromBlock;
    while (from <= toBlock) {
      signal?.throwIfAborted();
      const to = min(toBlock, from + span - 1n);
      const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to) };
      const logs = await ask([{ address, topics, ...range }], signal).catch((error: unknown) => {
        if (!(error instanceof Refused) || from === to) throw error;
        return undefined;
      });
      if (logs === undefined) {
        span = (to - from + 1n) / 2n;
        taken = span;
        continue;
      }
      if (to - from + 1n > taken) taken = to - from + 1n;
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

/** The first topic of an event's logs, by its signature. */
export function topicOf(signature: string): Hex {
  return keccak256Hex(Buffer.from(signature));
}
