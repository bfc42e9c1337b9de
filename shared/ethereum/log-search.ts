import { type Hex, type Log, Logs, toQuantity } from "./node-answers.ts";
import { Refused, type Rpc } from "./rpc.ts";

/** More than this at once is refused by most providers. */
const SPAN_MAX = 10_000n;

export type LogFilter = {
  address: Hex;
  topics: readonly (Hex | readonly Hex[] | null)[];
  fromBlock: bigint;
  /** Inclusive. */
  toBlock: bigint;
};

/** The logs that fit, the oldest first, a list for each range of blocks that was asked for. */
export type LogSearch = (filter: LogFilter) => AsyncGenerator<Log[]>;

/**
 * Searches block ranges as large as the node takes: providers allow from 10 to 10,000 blocks in one question, and some
 * bound the number of logs instead. A refused range is halved; what was taken last is where the next search starts.
 */
export function createLogSearch(rpc: Rpc): LogSearch {
  let taken = SPAN_MAX;

  return async function* search({ address, topics, fromBlock, toBlock }) {
    let span = min(SPAN_MAX, taken * 2n);
    let from = fromBlock;
    while (from <= toBlock) {
      const to = min(toBlock, from + span - 1n);
      const range = { fromBlock: toQuantity(from), toBlock: toQuantity(to) };
      const logs = await rpc({
        method: "eth_getLogs",
        params: [{ address, topics, ...range }],
        answer: Logs,
      }).catch((error: unknown) => {
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
      yield logs;
    }
  };
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
