import { addressWord, bytes32Word, type Hex, keccak256Hex } from "./encoding.ts";
import { type Log, Logs, type Receipt, Refused, type Rpc, toQuantity } from "./rpc.ts";
import type { Authorization } from "./typed-data.ts";

/** Most providers refuse more blocks than this at once. */
const SPAN_MAX = 10_000n;

type LogFilter = {
  address: Hex;
  topics: readonly (Hex | readonly Hex[] | null)[];
  fromBlock: bigint;
  /** Inclusive. */
  toBlock: bigint;
};

/** Yields the matching logs, the oldest first: a list for each range of blocks that was asked for. */
export type LogSearch = (filter: LogFilter) => AsyncGenerator<Log[]>;

/**
 * Searches block ranges as large as the node allows: providers take 10 to 10,000 blocks at once, and some limit the number
 * of logs instead. A refused range is halved, and the next search starts near the size that was taken last.
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

/** An EIP-3009 authorization of the token at `asset`. */
export type TokenAuthorization = Authorization & { asset: Hex };

export const TRANSFER = topicOf("Transfer(address,address,uint256)");
export const AUTHORIZATION_USED = topicOf("AuthorizationUsed(address,bytes32)");
export const AUTHORIZATION_CANCELED = topicOf("AuthorizationCanceled(address,bytes32)");

const AUTHORIZATION_STATE = topicOf("authorizationState(address,bytes32)").slice(0, 10);

/** Call data of `authorizationState(from, nonce)`, which is true once the nonce is used or cancelled. */
export function authorizationStateOf({ from, nonce }: TokenAuthorization): Hex {
  return `${AUTHORIZATION_STATE}${addressWord(from)}${bytes32Word(nonce)}` as Hex;
}

export function addressTopic(address: string): Hex {
  return `0x${addressWord(address)}`;
}

/**
 * Whether this receipt is the payment: `AuthorizationUsed(from, nonce)` and, as the very next log, the exact
 * `Transfer(from, to, value)`. A nonce alone proves nothing, because its owner can spend it on a transfer to itself. A
 * transfer alone proves nothing, because a batch may have others to the same recipient.
 */
export function isPayment({ status, logs }: Receipt, authorization: TokenAuthorization): boolean {
  if (status !== 1n) return false;
  return adjacent(logs).some(
    ([used, next]) => isUseOf(used, authorization) && isTransferOf(next, authorization),
  );
}

function isUseOf(log: Log, { asset, from, nonce }: TokenAuthorization): boolean {
  const [event, authorizer, its] = log.topics;
  return (
    log.address === asset.toLowerCase() &&
    event === AUTHORIZATION_USED &&
    authorizer === addressTopic(from) &&
    its === nonce.toLowerCase()
  );
}

function isTransferOf(log: Log, { asset, from, to, value }: TokenAuthorization): boolean {
  const [event, sender, recipient] = log.topics;
  return (
    log.address === asset.toLowerCase() &&
    event === TRANSFER &&
    sender === addressTopic(from) &&
    recipient === addressTopic(to) &&
    BigInt(log.data) === value
  );
}

/** The pairs of consecutive logs of which one contract wrote both. */
export function adjacent(logs: readonly Log[]): [before: Log, next: Log][] {
  const byIndex = new Map(logs.map((log) => [log.logIndex, log]));
  return logs.flatMap((next): [Log, Log][] => {
    const before = byIndex.get(next.logIndex - 1);
    return before === undefined || before.address !== next.address ? [] : [[before, next]];
  });
}

/** The address in a topic, in lower case. */
export function addressIn(topic: Hex): Hex {
  return `0x${topic.slice(-40)}`;
}

function topicOf(signature: string): Hex {
  return keccak256Hex(Buffer.from(signature));
}
