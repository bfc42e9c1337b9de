import type { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import { type Clock, delay } from "../platform/time/clock.ts";
import {
  acceptsSignature,
  type ContractSignature,
  type ContractVerdict,
  checkContractSignature,
  type SignatureCheck,
} from "./contract-signature.ts";
import { addressWord, type Hex, selectorOf, UINT256_MAX } from "./encoding.ts";
import {
  createEvidence,
  createSpentBefore,
  type Depths,
  type EvidenceOf,
  isSpentAt,
  type Spend,
} from "./evidence.ts";
import { createLogSearch } from "./logs.ts";
import { type AuthorizationName, methodOnChain, ruleOf, type TokenAuthorization } from "./payment-schemes.ts";
import type { ReceiptEvidence } from "./proof.ts";
import {
  type Block,
  ChainId,
  createNodeClient,
  createReads,
  type Reads,
  type Rpc,
  retryUnanswered,
  rpcOn,
} from "./rpc.ts";
import { createBatchedRpc } from "./rpc-batch.ts";
import { Reverted, unavailable, unlessRefused, unlessTooLong, WrongChain } from "./rpc-errors.ts";
import { type ApprovalCheck, type ApprovalVerdict, checkApproval } from "./sponsored-approval.ts";
import { type CheckedToken, checkToken, type TokenFindings } from "./token-check.ts";
import {
  createSentTransfers,
  createTransfers,
  type IsWanted,
  type SentRange,
  type SentTransfer,
  type Transfer,
  type TransferRange,
} from "./transfers.ts";

const BALANCE_OF = selectorOf("balanceOf(address)");
/** Limit on the bytes of the answer to a contract call: a 32-byte word, or the reason of a revert. */
const WORD_BYTES = 4096;
/** Limit on the bytes of a receipt. The receipt of one transfer has two or three KiB; a facilitator may put several transfers into one transaction. */
const RECEIPT_BYTES = 32 * 1024;
const HEAD_EVERY_MS = 2000;
const HEAD_TRIES = 3;
const READ_TRIES = 3;
/**
 * Maximum time for which a head below the highest known one counts as the head of a lagging node. After that, the chain must have been
 * reorganised, or restarted from its first block.
 */
const LAG_MS_MAX = 15_000;

export type ChainOptions = Depths & {
  rpcUrl: Secret;
  /** N of `eip155:N`. The node of any other chain is refused. */
  chainId: number;
  /** Timeout of each request to the node. */
  timeoutMs: number;
  /** Limit on the bytes of an answer. A longer answer is not read to its end. Default: 8 MiB. */
  answerBytesMax?: number;
  /** Pause before the second check of a token whose first check found a problem. Default: 3 s. */
  recheckMs?: number;
  clock: Clock;
  log: Logger;
};

/**
 * Reads one EVM chain. Every read may throw `payment.unavailable`. A request that the node fails to answer is sent again
 * (`retryUnanswered`).
 */
export type Chain = {
  /** Number of blocks that must follow the block of a payment. */
  readonly confirmations: number;
  evidenceOf: EvidenceOf;
  /** The head, which is the chain's newest block, as last read. After `start`, it is read every two seconds in the background. */
  head(): Head | undefined;
  /** Reads the head from the node. */
  freshHead(): Promise<Head>;
  /** The time of a block, unix ms. */
  timeOf(block: bigint): Promise<number>;
  transfersTo(range: TransferRange): AsyncGenerator<Transfer>;
  /**
   * Reads the authorization's state, and the payer's balance and allowance, at the newest block. The answer is never older than
   * the request.
   */
  stateOf(authorization: AuthorizationName): Promise<AuthorizationState>;
  /** Asks the payer's contract whether it accepts a signature, at the newest block. */
  checkSignature(question: SignatureCheck): Promise<ContractVerdict>;
  /** Whether a contract accepts a signature (ERC-1271), at the newest block. */
  acceptsSignature(signature: ContractSignature): Promise<boolean>;
  /** Checks whether an approval that the payer has signed could be sent to the chain, at the newest block. */
  checkApproval(question: Omit<ApprovalCheck, "chainId">): Promise<ApprovalVerdict>;
  /** Finds the transaction that used or cancelled the authorization, in this block or the ten thousand before it. */
  spentBefore(authorization: TokenAuthorization, block: bigint): Promise<Spend | undefined>;
  /** Yields the transfers from these senders that `isWanted` selects, oldest first. */
  transfersFrom(range: SentRange, isWanted: IsWanted): AsyncGenerator<SentTransfer>;
  /**
   * Reads what the receipt of a transaction proves about the authorization, even if its block is still the newest one. Undefined
   * if the transaction is in no block. A receipt that is too long to read proves nothing.
   */
  proofOf(transaction: Hex, authorization: TokenAuthorization): Promise<PlacedEvidence | undefined>;
  /** Whether at least `confirmations` blocks follow this block, by the last known head. */
  isDeep(block: bigint): boolean;
  /** Compares a token's contract and this node with the configuration (`checkToken`). A check that finds a problem runs a second time. */
  check(token: CheckedToken): Promise<TokenFindings>;
  start(): void;
  close(): Promise<void>;
};

type PlacedEvidence = ReceiptEvidence & { block: bigint };

type AuthorizationState = {
  /** True once the authorization is used, cancelled or invalidated. */
  isSpent: boolean;
  /** In the token's smallest unit. */
  balance: bigint;
  /**
   * Number of units that the payer has approved for the transfer method's contract. If the method needs no approval, the largest
   * number.
   */
  allowance: bigint;
  head: Head;
};

export function createChain(options: ChainOptions): Chain {
  const { chainId, confirmations, clock, log } = options;
  const { recheckMs = 3000 } = options;
  const { rpc, reads, tokenReads, receiptReads } = createNodeReads(options, () => heads.isLost());
  const search = createLogSearch(rpc, clock);
  const heads = createHeadWatch(reads, chainId, clock, log);

  /**
   * Repeats a read with a newer head while the node does not know the head's block. One URL may hide several nodes, and some lag:
   * they miss a block or a transfer that another node has already reported.
   */
  async function readAtNewest<Answer>(ask: (head: Head) => Promise<Answer | undefined>): Promise<Answer> {
    for (let tries = HEAD_TRIES; tries > 0; tries--) {
      const head = await heads.fresh();
      if (heads.isBehind(head) && tries > 1) continue;
      const answer = await ask(head);
      if (answer !== undefined) return answer;
    }
    throw unavailable("eth_call: the node does not know the block that it has just reported");
  }

  function stateOf(authorization: AuthorizationName): Promise<AuthorizationState> {
    const { method, asset, from } = authorization;
    const allowanceCall = methodOnChain(method).allowanceCall?.(authorization);
    const balanceOf = { to: asset, data: `${BALANCE_OF}${addressWord(from)}` } as const;
    return readAtNewest(async (head) => {
      const [isSpent, balance, allowance] = await Promise.all([
        retryUntilKnown(() => isSpentAt(tokenReads, authorization, head)),
        retryUntilKnown(() => readUnits(tokenReads, balanceOf, head)),
        allowanceCall === undefined
          ? UINT256_MAX
          : retryUntilKnown(() => readUnits(tokenReads, allowanceCall, head)),
      ]);
      if (isSpent === undefined || balance === undefined || allowance === undefined) return undefined;
      return { isSpent, balance, allowance, head };
    });
  }

  return {
    confirmations,
    stateOf,
    checkSignature: (question) =>
      readAtNewest((head) => retryUntilKnown(() => checkContractSignature(reads, question, head))),
    acceptsSignature: (signed) =>
      readAtNewest((head) => retryUntilKnown(() => acceptsSignature(reads, signed, head))),
    checkApproval: (question) =>
      readAtNewest((head) => retryUntilKnown(() => checkApproval(reads, { ...question, chainId }, head))),
    spentBefore: createSpentBefore(reads, search),
    evidenceOf: createEvidence(reads, search, options),
    head: heads.last,
    freshHead: heads.fresh,
    timeOf: async (block) => Number((await reads.block(block)).timestamp) * 1000,
    transfersTo: createTransfers(reads, search),
    transfersFrom: createSentTransfers(reads, search),
    async proofOf(transaction, authorization) {
      const receipt = await receiptReads.receipt(transaction).catch(unlessTooLong);
      if (receipt === "too long") return { kind: "none", block: 0n };
      if (receipt === null) return undefined;
      const proof = await ruleOf(authorization).evidenceIn(receipt, reads.transaction);
      return { ...proof, block: receipt.blockNumber };
    },
    isDeep(block) {
      const head = heads.last()?.number ?? block;
      return (head > block ? head : block) - block >= BigInt(confirmations);
    },
    async check(token) {
      const checkOnce = () => checkToken(reads, search, token, options).catch(unlessWrongChain);
      const found = await checkOnce();
      if (found.problems.length === 0) return found;
      // The problem may be temporary: a node behind the URL may lag, or a local chain has just started and lacks its contracts.
      await delay(recheckMs);
      return checkOnce();
    },
    start: heads.start,
    close: heads.close,
  };
}

/**
 * Creates the readers of one node. The requests of a batch wait for each other (rpc-batch.ts). So only reads that a payer cannot
 * slow down use batches.
 */
function createNodeReads(options: ChainOptions, isUnreachable: () => boolean) {
  const { rpcUrl: url, chainId, timeoutMs, answerBytesMax, clock } = options;
  const node = createNodeClient({ url, timeoutMs, answerBytesMax });
  const guard = createChainGuard(chainId);
  const withRetries = (rpc: Rpc): Rpc => guard(retryUnanswered(rpc, { timeoutMs, isUnreachable }));
  const batched = (answerBytesEach: number) =>
    createReads(withRetries(createBatchedRpc(node, { answerBytesEach, clock })));
  const rpc = withRetries(rpcOn(node));
  return {
    rpc,
    reads: createReads(rpc),
    /** Reads of a configured token's contract. */
    tokenReads: batched(WORD_BYTES),
    /** Reads of settlement receipts. */
    receiptReads: batched(RECEIPT_BYTES),
  };
}

/** Repeats a read while its result is undefined, because the node that answered does not know the block. */
async function retryUntilKnown<Answer>(read: () => Promise<Answer | undefined>): Promise<Answer | undefined> {
  let answer = await read();
  for (let tries = READ_TRIES; answer === undefined && tries > 1; tries--) answer = await read();
  return answer;
}

/** Reads an amount from the token's contract. Undefined if the node does not have the block. */
async function readUnits(
  reads: Reads,
  call: { to: Hex; data: Hex },
  { hash: blockHash }: Head,
): Promise<bigint | undefined> {
  const units = await reads.call(call, { blockHash }).catch((error: unknown) => {
    if (error instanceof Reverted) throw error;
    return unlessRefused(error);
  });
  if (units === undefined) return undefined;
  if (units.length !== 66) throw unavailable("eth_call: the asset returns neither balance nor allowance");
  return BigInt(units);
}

function unlessWrongChain(error: unknown): TokenFindings {
  if (!(error instanceof WrongChain)) throw error;
  return { problems: [error.message], warnings: [] };
}

/** Checks once, before the first request, which chain the node serves: on a wrong chain every payment would look unpaid. */
function createChainGuard(chainId: number): (rpc: Rpc) => Rpc {
  let checked: Promise<void> | undefined;
  const check = async (rpc: Rpc): Promise<void> => {
    const served = await rpc({ method: "eth_chainId", params: [], answer: ChainId });
    if (served !== BigInt(chainId)) throw new WrongChain(`the node serves chain ${served}, not ${chainId}`);
  };
  return (rpc) => async (call) => {
    checked ??= check(rpc);
    await checked.catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return rpc(call);
  };
}

/** The chain's newest block, read at `at` (unix milliseconds, by this process's clock). */
type Head = Block & { at: number };

/** Follows the head in the background. Logs once when the node is lost, and once when it is back. */
function createHeadWatch(reads: Reads, chainId: number, clock: Clock, log: Logger) {
  let head: Head | undefined;
  let highest: Head | undefined;
  let lost = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> | undefined;
  /** The read in flight, and the next one. Callers that arrive during a read share the next one. */
  let reading: Promise<Head> | undefined;
  let next: Promise<Head> | undefined;

  async function read(): Promise<Head> {
    const block = await reads.block("latest");
    head = { ...block, at: clock() };
    if (!isBehind(head)) highest = head;
    return head;
  }

  function isBehind({ number, at }: Head): boolean {
    return highest !== undefined && number < highest.number && at - highest.at < LAG_MS_MAX;
  }

  /** Reads the head. Callers that arrive while a read is in flight share the next read, because no answer may be older than its request. */
  function fresh(): Promise<Head> {
    const begin = (): Promise<Head> => {
      next = undefined;
      reading = read().finally(() => {
        reading = undefined;
      });
      return reading;
    };
    if (reading === undefined) return begin();
    next ??= reading.then(begin, begin);
    return next;
  }

  async function poll(): Promise<void> {
    try {
      await fresh();
      if (lost) log.info("chain.up", { chainId });
      lost = false;
    } catch (error) {
      if (!lost) log.warn("chain.down", { chainId, reason: messageOf(error) });
      lost = true;
    }
    if (timer !== undefined) timer = setTimeout(startPoll, HEAD_EVERY_MS);
  }

  function startPoll(): void {
    polling = poll();
  }

  return {
    last: (): Head | undefined => head,
    /** Whether the last background read has failed. */
    isLost: (): boolean => lost,
    fresh,
    /** Whether a node has recently reported a block above this head. */
    isBehind,
    start(): void {
      if (timer !== undefined) return;
      timer = setTimeout(startPoll, 0);
    },
    async close(): Promise<void> {
      clearTimeout(timer);
      timer = undefined;
      await polling;
    },
  };
}
