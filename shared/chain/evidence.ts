import type { Hex } from "./encoding.ts";
import type { LogSearch } from "./logs.ts";
import { type AuthorizationName, ruleOf, stateCallOf, type TokenAuthorization } from "./payment-schemes.ts";
import type { Oddity, TransferRule } from "./proof.ts";
import {
  type Block,
  type Log,
  RateLimited,
  type Reads,
  unavailable,
  unlessRefused,
  unlessTooLong,
} from "./rpc.ts";

/** What the chain says about one authorization. */
type Evidence =
  /** It paid, by the transfer at this position of the receipt (`positionIn`), and the transaction is as deep as configured. */
  | { kind: "paid"; transaction: Hex; block: bigint; position: number }
  /** It did not pay and never will: no later block changes what `block` shows. */
  | { kind: "unpaid"; reason: "expired" | "cancelled" | "spent_otherwise"; block: bigint }
  /** Nothing conclusive yet; `seen` is a transaction that pays but is not deep enough. */
  | {
      kind: "open";
      seen?: { transaction: Hex; block: bigint };
      /** Up to here the next look need not search for a use again. */
      searched?: bigint;
    }
  /** Spent in a way that does not say whether it paid: a human must decide. */
  | { kind: "contradiction"; reason: string };

/** Where to look for the use of an authorization. */
export type Since = {
  /** A payment in an earlier block does not count as one for this authorization. */
  since: bigint;
  /** What the look before has answered, if anything. */
  searched?: bigint | undefined;
};

export type EvidenceOf = (authorization: TokenAuthorization, at: Since) => Promise<Evidence>;

/** All uses lie before `validBefore`. This long after it, only a node that is further behind may lack their logs. */
const LAG_SECONDS_MAX = 300n;

export type Depths = {
  /** How many blocks must be on top of the one that pays; with 0 the latest block will do. */
  confirmations: number;
  /** How many must be on top of a block that counts as final, if the node does not say which is. */
  voidDepth: number;
};

/** The basis of one judgement: nothing above `head` is looked at. `final` is read when it is first needed. */
type View = {
  authorization: TokenAuthorization;
  at: Since;
  head: Block;
  final: () => Promise<Block | undefined>;
};

/** What a search has found, and up to which block. One that the node has broken off has not seen all. */
type Spends = { used?: Log; cancelled?: Log; searched: bigint; isBrokenOff?: boolean };

/**
 * Behind one URL are several nodes, and each question may go to one that is behind the node that answered before. So that an
 * authorization paid is told by its receipt alone, and that it can pay no more by two things together: a final block is past its end,
 * and the token says that it is unused at a later block, named by its hash. Logs that are missing only leave it open.
 */
export function createEvidence(reads: Reads, search: LogSearch, depths: Depths): EvidenceOf {
  const { confirmations, voidDepth } = depths;
  const spendsIn = createSpendSearch(reads, search);
  const finalBelow = createFinalBelow(reads, voidDepth);

  return async function evidenceOf(authorization, at) {
    const head = await reads.block("latest");
    const final = once(() => finalBelow(head));
    const view: View = { authorization, at, head, final };
    const spent = await isSpentAt(reads, authorization, head);
    if (spent === false) return judgeUnused(view);
    const spends = await spendsIn(view, at.searched === undefined ? at.since : at.searched + 1n);
    const found = await judge(spends, view);
    if (found !== undefined) return found;
    if (spends.isBrokenOff) return open(view, spends);
    return spent === true ? judgeSilence(view, spends) : open(view, spends);
  };

  async function judge({ used, cancelled }: Spends, view: View): Promise<Evidence | undefined> {
    if (used !== undefined) return judgeUse(used, view);
    if (cancelled === undefined || !(await isFinal(cancelled.blockNumber, view))) return undefined;
    return { kind: "unpaid", reason: "cancelled", block: cancelled.blockNumber };
  }

  async function judgeUse(used: Log, view: View): Promise<Evidence> {
    const { authorization, head } = view;
    const receipt = await reads.receipt(used.transactionHash).catch(unlessTooLong);
    if (receipt === "too long") return judgeTooLong(used, view);
    if (receipt?.blockHash !== used.blockHash) return { kind: "open" }; // the chain changed between two questions
    const { transactionHash: transaction, blockNumber: block } = receipt;
    const proof = await ruleOf(authorization).evidenceIn(receipt, reads.transaction);
    if (proof.kind === "paid") {
      const isDeep = head.number - block >= BigInt(confirmations);
      if (!isDeep) return { kind: "open", seen: { transaction, block } };
      return { kind: "paid", transaction, block, position: proof.position };
    }
    if (!(await isFinal(block, view))) return { kind: "open" };
    if (proof.kind === "none") return { kind: "unpaid", reason: "spent_otherwise", block };
    return { kind: "contradiction", reason: `transaction ${transaction} ${textOf(proof, authorization)}` };
  }

  async function judgeTooLong({ transactionHash, blockNumber }: Log, view: View): Promise<Evidence> {
    if (!(await isFinal(blockNumber, view))) return { kind: "open" };
    return {
      kind: "contradiction",
      reason: `the receipt of transaction ${transactionHash} is too long to be read`,
    };
  }

  /**
   * The authorization is spent, and neither its use nor its cancellation was found. A node whose logs are behind would say the same, so
   * time must pass and all blocks be searched once more. A cancelled authorization is spent too: that alone proves no payment.
   */
  async function judgeSilence(view: View, spends: Spends): Promise<Evidence> {
    const { authorization, at } = view;
    const final = await view.final();
    const endedFor = (final?.timestamp ?? 0n) - authorization.validBefore;
    if (final === undefined || endedFor <= 0n) return open(view, spends);
    // It may have been cancelled after its end.
    const wasSpent = await isSpentAt(reads, authorization, final);
    if (wasSpent === false) return { kind: "unpaid", reason: "expired", block: final.number };
    if (endedFor <= LAG_SECONDS_MAX || spends.cancelled !== undefined) return open(view, spends);
    const all = await spendsIn(view, at.since, "head");
    const found = await judge(all, view);
    if (found !== undefined || all.cancelled !== undefined || all.isBrokenOff)
      return found ?? open(view, spends);
    return { kind: "contradiction", reason: ruleOf(authorization).silence(at.since) };
  }

  /** Blocks that may still change are searched again. */
  function open({ head }: View, { searched }: Spends): Evidence {
    const settled = head.number - BigInt(voidDepth);
    const upTo = searched < settled ? searched : settled;
    return upTo >= 0n ? { kind: "open", searched: upTo } : { kind: "open" };
  }
}

function textOf(proof: Oddity, authorization: TokenAuthorization): string {
  switch (proof.kind) {
    case "short":
      return `transferred ${proof.value} of ${authorization.value} units: the token keeps a part of each transfer`;
    case "wrapped":
      return "called the x402 proxy through another contract, with this permit or with another one";
    case "unpaired":
      return `does not have the events of the authorization and the transfer next to each other, in the order event_order = "${authorization.eventOrder}"`;
  }
}

/** The transaction that has used or cancelled an authorization. */
export type Spend = { transaction: Hex; block: bigint; how: "used" | "cancelled" };

const BLOCKS_BACK = 10_000n;
const BLOCKS_AT_ONCE = 1000n;

/** Searches the ten thousand blocks up to one, the newest thousand first. What only invalidates the nonce of a permit is not found. */
export function createSpentBefore(reads: Reads, search: LogSearch) {
  async function lastIn(
    authorization: TokenAuthorization,
    range: { fromBlock: bigint; toBlock: bigint },
  ): Promise<Spend | undefined> {
    const { traces, readTrace } = ruleOf(authorization);
    let last: Spend | undefined;
    for await (const { logs } of search({ ...traces, ...range })) {
      for (const log of logs) {
        const how = await readTrace(log, reads.transaction);
        if (how !== undefined) last = { transaction: log.transactionHash, block: log.blockNumber, how };
      }
    }
    return last;
  }

  return async function spentBefore(
    authorization: TokenAuthorization,
    block: bigint,
  ): Promise<Spend | undefined> {
    const first = block > BLOCKS_BACK ? block - BLOCKS_BACK : 0n;
    for (let toBlock = block; toBlock >= first; toBlock -= BLOCKS_AT_ONCE) {
      const from = toBlock - BLOCKS_AT_ONCE + 1n;
      const spend = await lastIn(authorization, { fromBlock: from > first ? from : first, toBlock });
      if (spend !== undefined) return spend;
    }
    return undefined;
  };
}

/** Searches for what has spent an authorization. */
function createSpendSearch(reads: Reads, search: LogSearch) {
  /** Whether no use can be in a later block. */
  async function isPast(validBefore: bigint, block: bigint, head: Block): Promise<boolean> {
    if (block === head.number || head.timestamp <= validBefore) return false;
    return (await reads.block(block)).timestamp > validBefore;
  }

  async function note(
    { readTrace }: TransferRule,
    { logs, toBlock }: { logs: readonly Log[]; toBlock: bigint },
    spends: Spends,
  ): Promise<void> {
    for (const log of logs) {
      const how = await readTrace(log, reads.transaction);
      if (how !== undefined) spends[how] = log;
    }
    spends.searched = toBlock;
  }

  /** Ends with the first use, and mostly at the first block that is past the authorization's end. */
  return async function spendsIn(
    { authorization, head }: View,
    fromBlock: bigint,
    until: "end" | "head" = "end",
  ): Promise<Spends> {
    const { validBefore } = authorization;
    const rule = ruleOf(authorization);
    const filter = { ...rule.traces, fromBlock, toBlock: head.number };
    const spends: Spends = { searched: fromBlock - 1n };
    const isDone = async (toBlock: bigint) =>
      spends.used !== undefined || (until === "end" && (await isPast(validBefore, toBlock, head)));
    try {
      for await (const found of search(filter)) {
        await note(rule, found, spends);
        if (await isDone(found.toBlock)) break;
      }
    } catch (error) {
      // What was searched until now need not be searched again.
      if (!(error instanceof RateLimited) || spends.searched < fromBlock) throw error;
      spends.isBrokenOff = true;
    }
    return spends;
  };
}

/** The chain says that it is unused at `head`. */
async function judgeUnused({ authorization, head, final }: View): Promise<Evidence> {
  if (head.timestamp <= authorization.validBefore) return { kind: "open" };
  const its = await final();
  if (its === undefined || its.timestamp <= authorization.validBefore) return { kind: "open" };
  return { kind: "unpaid", reason: "expired", block: its.number };
}

async function isFinal(block: bigint, { final }: View): Promise<boolean> {
  const its = await final();
  return its !== undefined && block <= its.number;
}

/** The last final block that is not above `head`: the node says which, or else it is so deep. Undefined if there is none yet. */
function createFinalBelow(reads: Reads, voidDepth: number) {
  let isTold = false;
  return async function finalBelow(head: Block): Promise<Block | undefined> {
    const finalized = await reads.block("finalized").catch(unlessRefused);
    if (finalized !== undefined) {
      isTold = true;
      return finalized.number <= head.number ? finalized : undefined;
    }
    // A node that has told it once knows better than any depth.
    if (isTold) return undefined;
    const deep = head.number - BigInt(voidDepth);
    return deep < 0n ? undefined : reads.block(deep);
  };
}

/** Whether the chain says that the authorization is spent at this block. Undefined if the node that was asked does not know the block. */
export async function isSpentAt(
  reads: Reads,
  name: AuthorizationName,
  { hash: blockHash }: Pick<Block, "hash">,
): Promise<boolean | undefined> {
  const { isSpent, ...call } = stateCallOf(name);
  const state = await reads.call(call, { blockHash }).catch(unlessRefused);
  if (state === undefined) return undefined;
  if (state.length !== 66)
    throw unavailable(`eth_call: ${call.to} does not return the state of an authorization`);
  return isSpent(BigInt(state));
}

function once<Value>(read: () => Promise<Value>): () => Promise<Value> {
  let reading: Promise<Value> | undefined;
  return () => {
    reading ??= read();
    return reading;
  };
}
