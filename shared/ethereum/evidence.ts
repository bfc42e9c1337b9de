import type { Hex } from "./encoding.ts";
import {
  AUTHORIZATION_CANCELED,
  AUTHORIZATION_USED,
  addressTopic,
  authorizationStateOf,
  isPayment,
  type LogSearch,
  type TokenAuthorization,
} from "./logs.ts";
import { type Block, type Log, type Reads, unavailable } from "./rpc.ts";

/** What the chain says about one authorization. */
type Evidence =
  /** It paid, and the transaction is as deep as configured. */
  | { kind: "paid"; transaction: Hex; block: bigint }
  /** It did not pay and never will: proven by the finalized block `block`. */
  | { kind: "unpaid"; reason: "expired" | "cancelled" | "spent_otherwise"; block: bigint }
  /** Nothing conclusive yet; `seen` is a transaction that pays but is not deep enough. */
  | { kind: "open"; seen?: { transaction: Hex; block: bigint } }
  /** Spent, but no use is found, although every possible use is older than any node's lag: a human must decide. */
  | { kind: "contradiction"; reason: string };

/** A payment before `sinceBlock` does not count as one for this authorization. */
export type EvidenceOf = (authorization: TokenAuthorization, sinceBlock: bigint) => Promise<Evidence>;

/** All uses lie before `validBefore`. This long after it, only a node that is further behind may lack their logs. */
const LAG_SECONDS_MAX = 300n;

/** The basis of one judgement: nothing above `head` is looked at, and `finalized` is not above it. */
type View = { authorization: TokenAuthorization; since: bigint; head: Block; finalized: Block };

/**
 * Behind one URL are several nodes: each question may go to one that is behind the node that answered before.
 * `confirmations` is how many blocks must be on top of the one that pays; with 0 the latest block will do.
 */
export function createEvidence(reads: Reads, search: LogSearch, confirmations: number): EvidenceOf {
  async function spendsIn(view: View): Promise<{ used?: Log; canceled?: Log }> {
    const { asset, from, nonce } = view.authorization;
    const topics = [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], addressTopic(from), nonce];
    const range = { fromBlock: view.since, toBlock: view.head.number };
    const found: { used?: Log; canceled?: Log } = {};
    for await (const logs of search({ address: asset, topics, ...range })) {
      for (const log of logs) found[log.topics[0] === AUTHORIZATION_USED ? "used" : "canceled"] = log;
    }
    return found;
  }

  async function judgeUse(used: Log, { authorization, head, finalized }: View): Promise<Evidence> {
    const receipt = await reads.receipt(used.transactionHash);
    if (receipt?.blockHash !== used.blockHash) return { kind: "open" }; // the chain changed between two questions
    const { transactionHash: transaction, blockNumber: block } = receipt;
    if (!isPayment(receipt, authorization)) {
      return block <= finalized.number
        ? { kind: "unpaid", reason: "spent_otherwise", block }
        : { kind: "open" };
    }
    if (head.number - block >= BigInt(confirmations)) return { kind: "paid", transaction, block };
    return { kind: "open", seen: { transaction, block } };
  }

  return async function evidenceOf(authorization, since) {
    const finalized = await reads.block("finalized");
    const head = await reads.block("latest");
    if (head.number < finalized.number) return { kind: "open" };
    const view: View = { authorization, since, head, finalized };
    const { used, canceled } = await spendsIn(view);
    if (used !== undefined) return judgeUse(used, view);
    if (canceled !== undefined && canceled.blockNumber <= finalized.number) {
      return { kind: "unpaid", reason: "cancelled", block: canceled.blockNumber };
    }
    return judgeSilence(reads, view);
  };
}

/**
 * No use was found; a node whose logs are behind would say the same. `authorizationState` is the proof, read at a finalized
 * block past `validBefore`: no later block takes the authorization, and only the chain's clock counts. If it is true, that
 * alone proves no payment, because a cancelled authorization is spent too.
 */
async function judgeSilence(reads: Reads, { authorization, since, finalized }: View): Promise<Evidence> {
  const endedFor = finalized.timestamp - authorization.validBefore;
  if (endedFor <= 0n) return { kind: "open" };
  if (!(await isSpent(reads, authorization, finalized.number))) {
    return { kind: "unpaid", reason: "expired", block: finalized.number };
  }
  if (endedFor <= LAG_SECONDS_MAX) return { kind: "open" };
  const reason = `the authorization is spent, though by no transaction since block ${since}: it was spent before it was claimed, or the node lacks logs`;
  return { kind: "contradiction", reason };
}

async function isSpent(reads: Reads, authorization: TokenAuthorization, block: bigint): Promise<boolean> {
  const state = await reads.call(
    { to: authorization.asset, data: authorizationStateOf(authorization) },
    block,
  );
  if (state.length !== 66) throw unavailable("eth_call: the asset answers no authorizationState");
  return BigInt(state) !== 0n;
}
