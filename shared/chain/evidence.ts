import type { Hex } from "./encoding.ts";
import type { LogSearch } from "./logs.ts";
import { type AuthorizationName, ruleOf, stateCallOf, type TokenAuthorization } from "./payment-schemes.ts";
import type { InconclusiveEvidence, TransferRule } from "./proof.ts";
import type { Block, Log, Reads } from "./rpc.ts";
import { RateLimited, unavailable, unlessRefused, unlessTooLong } from "./rpc-errors.ts";

/** The chain's evidence about one authorization. */
type Evidence =
  /**
   * The authorization paid, by the transfer at `position` of the receipt (`positionIn`). At least `confirmations` blocks follow.
   */
  | { kind: "paid"; transaction: Hex; block: bigint; position: number }
  /** The authorization did not pay and never will. `block` is final and shows this. */
  | { kind: "unpaid"; reason: "expired" | "cancelled" | "spent_otherwise"; block: bigint }
  /** The evidence is not conclusive yet. `seen` is a transaction that pays but is not deep enough. */
  | {
      kind: "open";
      seen?: { transaction: Hex; block: bigint };
      /** The next search for a use can start after this block. */
      searched?: bigint;
    }
  /** The authorization is spent, and the evidence does not say whether it paid. An operator must decide. */
  | { kind: "contradiction"; reason: string };

/** Start of a search for the use of an authorization. */
export type SearchStart = {
  /** A payment in an earlier block does not count for this authorization. */
  since: bigint;
  /**
   * `searched` of the evidence from the previous search, if there was one. The blocks up to this one need not be searched again.
   */
  searched?: bigint | undefined;
};

export type EvidenceOf = (authorization: TokenAuthorization, at: SearchStart) => Promise<Evidence>;

/**
 * Maximum time by which a node's logs are expected to lag. A use is in a block before `validBefore`, so its log must be known
 * this long after that time.
 */
const LAG_SECONDS_MAX = 300n;

export type Depths = {
  /** Number of blocks that must follow the block of a payment. With 0, the latest block is deep enough. */
  confirmations: number;
  /** Number of blocks that must follow a block for it to count as final, if the node does not report the final block. */
  voidDepth: number;
};

/** The data for one judgement, which ignores all blocks above `head`. `final` reads the final block at its first call. */
type View = {
  authorization: TokenAuthorization;
  at: SearchStart;
  head: Block;
  final: () => Promise<Block | undefined>;
};

/**
 * Result of a search for uses and cancellations, up to the block `searched`. `isBrokenOff` is true if a rate limit ended the search early.
 */
type Spends = { used?: Log; cancelled?: Log; searched: bigint; isBrokenOff?: boolean };

/**
 * Creates the judge of authorizations. One URL may hide several nodes, and some may lag behind others. So missing logs prove
 * nothing: they leave the evidence open. Only a receipt proves that an authorization paid.
 *
 * An authorization can no longer pay if a transaction in a final block cancelled it, or used it for something else. The same is
 * true if a final block is later than the authorization's end, and the token reports it as unused at that block or a later one.
 * The request for this report names the block by its hash, so that a lagging node cannot answer for another block.
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
    return spent === true ? judgeWithoutTrace(view, spends) : open(view, spends);
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
    if (receipt?.blockHash !== used.blockHash) return { kind: "open" }; // the chain was reorganised between two requests
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
   * Judges an authorization that is spent, although no use or cancellation was found. Either a node's logs lag and do not show
   * the payment yet, or it never paid: a cancelled authorization is spent too. So this waits until the logs must be complete
   * (`LAG_SECONDS_MAX`), and then searches all blocks again.
   */
  async function judgeWithoutTrace(view: View, spends: Spends): Promise<Evidence> {
    const { authorization, at } = view;
    const final = await view.final();
    const endedFor = (final?.timestamp ?? 0n) - authorization.validBefore;
    if (final === undefined || endedFor <= 0n) return open(view, spends);
    // If the authorization was still unspent at a final block after its end, it was cancelled later and never paid.
    const wasSpent = await isSpentAt(reads, authorization, final);
    if (wasSpent === false) return { kind: "unpaid", reason: "expired", block: final.number };
    if (endedFor <= LAG_SECONDS_MAX || spends.cancelled !== undefined) return open(view, spends);
    const all = await spendsIn(view, at.since, "head");
    const found = await judge(all, view);
    if (found !== undefined || all.cancelled !== undefined || all.isBrokenOff)
      return found ?? open(view, spends);
    return { kind: "contradiction", reason: ruleOf(authorization).explainNoTrace(at.since) };
  }

  /** Returns evidence of the kind `open`. The next search repeats the blocks that may still change. */
  function open({ head }: View, { searched }: Spends): Evidence {
    const settled = head.number - BigInt(voidDepth);
    const upTo = searched < settled ? searched : settled;
    return upTo >= 0n ? { kind: "open", searched: upTo } : { kind: "open" };
  }
}

function textOf(proof: InconclusiveEvidence, authorization: TokenAuthorization): string {
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

/**
 * Creates a search for the transaction that used or cancelled an authorization. It covers the ten thousand blocks up to a given one, the
 * newest thousand first. It does not find an invalidation of a permit's nonce.
 */
export function createSpentBefore(reads: Reads, search: LogSearch) {
  async function lastIn(
    authorization: TokenAuthorization,
    range: { fromBlock: bigint; toBlock: bigint },
  ): Promise<Spend | undefined> {
    const { logFilter, classifyLog } = ruleOf(authorization);
    let last: Spend | undefined;
    for await (const { logs } of search({ ...logFilter, ...range })) {
      for (const log of logs) {
        const how = await classifyLog(log, reads.transaction);
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

/** Creates a search for the uses and cancellations of an authorization. */
function createSpendSearch(reads: Reads, search: LogSearch) {
  /** Whether the block is later than the authorization's end. If so, no later block can contain a use. */
  async function isPast(validBefore: bigint, block: bigint, head: Block): Promise<boolean> {
    if (block === head.number || head.timestamp <= validBefore) return false;
    return (await reads.block(block)).timestamp > validBefore;
  }

  async function note(
    { classifyLog }: TransferRule,
    { logs, toBlock }: { logs: readonly Log[]; toBlock: bigint },
    spends: Spends,
  ): Promise<void> {
    for (const log of logs) {
      const how = await classifyLog(log, reads.transaction);
      if (how !== undefined) spends[how] = log;
    }
    spends.searched = toBlock;
  }

  /**
   * Searches for uses and cancellations, and stops after the first use. With `until` "end", it also stops after a block that is
   * later than the authorization's end.
   */
  return async function spendsIn(
    { authorization, head }: View,
    fromBlock: bigint,
    until: "end" | "head" = "end",
  ): Promise<Spends> {
    const { validBefore } = authorization;
    const rule = ruleOf(authorization);
    const filter = { ...rule.logFilter, fromBlock, toBlock: head.number };
    const spends: Spends = { searched: fromBlock - 1n };
    const isDone = async (toBlock: bigint) =>
      spends.used !== undefined || (until === "end" && (await isPast(validBefore, toBlock, head)));
    try {
      for await (const found of search(filter)) {
        await note(rule, found, spends);
        if (await isDone(found.toBlock)) break;
      }
    } catch (error) {
      // The next search can skip the blocks that were searched before the interruption.
      if (!(error instanceof RateLimited) || spends.searched < fromBlock) throw error;
      spends.isBrokenOff = true;
    }
    return spends;
  };
}

/** Judges an authorization that the token reports as unused at `head`. */
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

/**
 * Creates a reader of the last final block. If the node does not report final blocks, a block counts as final once `voidDepth`
 * blocks follow it. Undefined if no block is final yet, or if the final block is above `head`.
 */
function createFinalBelow(reads: Reads, voidDepth: number) {
  let hasReportedFinal = false;
  return async function finalBelow(head: Block): Promise<Block | undefined> {
    const finalized = await reads.block("finalized").catch(unlessRefused);
    if (finalized !== undefined) {
      hasReportedFinal = true;
      return finalized.number <= head.number ? finalized : undefined;
    }
    // A node that has reported a final block will report one again, so depth must not decide.
    if (hasReportedFinal) return undefined;
    const deep = head.number - BigInt(voidDepth);
    return deep < 0n ? undefined : reads.block(deep);
  };
}

/** Whether the token reports the authorization as spent at this block. Undefined if the node does not know the block. */
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
