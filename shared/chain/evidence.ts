import type { LogSearch } from "./log-search.ts";
import type { Block, Hex, Log } from "./node-answers.ts";
import type { Reads } from "./reads.ts";
import { unavailable } from "./rpc.ts";
import {
  AUTHORIZATION_CANCELED,
  AUTHORIZATION_USED,
  type Authorization,
  addressTopic,
  authorizationStateOf,
  isPayment,
} from "./token-events.ts";

/** What the chain says of one authorization. */
export type Evidence =
  /** It paid, and the transaction is as deep as configured. */
  | { kind: "paid"; transaction: Hex; block: bigint }
  /** It did not pay and never will: proven by the finalized block `block`. */
  | { kind: "unpaid"; reason: "expired" | "cancelled" | "spent_otherwise"; block: bigint }
  /** Nothing conclusive yet; `seen` is a transaction that pays and is not deep enough. */
  | { kind: "open"; seen?: { transaction: Hex; block: bigint } }
  /** Spent, by nothing that was found: for a human. */
  | { kind: "contradiction"; reason: string };

/** A payment from before `sinceBlock` is none for what is asked about. */
export type EvidenceOf = (authorization: Authorization, sinceBlock: bigint) => Promise<Evidence>;

type Deps = {
  reads: Reads;
  search: LogSearch;
  /** How many blocks must be on top of the one that pays; 0 means the latest block will do. */
  confirmations: number;
};

/** All that one judgement is based on: nothing above `head` is looked at. */
type View = { authorization: Authorization; since: bigint; head: Block; finalized: Block };

export function createEvidence(deps: Deps): EvidenceOf {
  return async function evidenceOf(authorization, since) {
    const { reads, search } = deps;
    const [head, finalized] = await Promise.all([reads.block("latest"), reads.block("finalized")]);
    const view: View = { authorization, since, head, finalized };
    const { used, canceled } = await spendsIn(search, view);
    if (used !== undefined) return judgeUse(deps, used, view);
    if (canceled !== undefined) return judgeCancel(canceled, view);
    return judgeSilence(reads, view);
  };
}

async function spendsIn(search: LogSearch, view: View): Promise<{ used?: Log; canceled?: Log }> {
  const { asset, from, nonce } = view.authorization;
  const topics = [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], addressTopic(from), nonce];
  const range = { fromBlock: view.since, toBlock: view.head.number };
  const found: { used?: Log; canceled?: Log } = {};
  for await (const logs of search({ address: asset, topics, ...range })) {
    for (const log of logs) found[log.topics[0] === AUTHORIZATION_USED ? "used" : "canceled"] = log;
  }
  return found;
}

async function judgeUse({ reads, confirmations }: Deps, used: Log, view: View): Promise<Evidence> {
  const { authorization, head, finalized } = view;
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

function judgeCancel({ blockNumber: block }: Log, view: View): Evidence {
  if (block <= view.finalized.number) return { kind: "unpaid", reason: "cancelled", block };
  return judgeTime(view);
}

/**
 * No log was found. `authorizationState` alone is no payment, as it is true for a cancelled authorization too; but where
 * it is false there was none, and unlike an empty answer to a log search this cannot come from a node that lags behind.
 */
async function judgeSilence(reads: Reads, view: View): Promise<Evidence> {
  const isSpentAt = (block: Block) => isSpent(reads, view.authorization, block.number);
  if ((await isSpentAt(view.head)) && (await isSpentAt(view.finalized))) {
    const reason = `the authorization is spent, though by no transaction since block ${view.since}: it was spent before it was claimed, or the node lacks logs`;
    return { kind: "contradiction", reason };
  }
  return judgeTime(view);
}

async function isSpent(reads: Reads, authorization: Authorization, block: bigint): Promise<boolean> {
  const state = await reads.call(
    { to: authorization.asset, data: authorizationStateOf(authorization) },
    block,
  );
  if (state.length !== 66) throw unavailable("eth_call: the asset answers no authorizationState");
  return BigInt(state) !== 0n;
}

/** No block later than `validBefore` takes an authorization that is still unused; no clock but the chain's is asked. */
function judgeTime({ authorization, finalized }: View): Evidence {
  if (finalized.timestamp <= authorization.validBefore) return { kind: "open" };
  return { kind: "unpaid", reason: "expired", block: finalized.number };
}
