import type { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import { type Clock, delay } from "../platform/time/clock.ts";
import {
  askContract,
  askWhetherSigned,
  type ContractSignature,
  type ContractVerdict,
  type Question,
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
  askAgain,
  type Block,
  ChainId,
  createReads,
  createRpc,
  type Reads,
  Reverted,
  type Rpc,
  unavailable,
  unlessRefused,
  unlessTooLong,
  WrongChain,
} from "./rpc.ts";
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
const HEAD_EVERY_MS = 2000;
const HEAD_TRIES = 3;
const READ_TRIES = 3;
/** A chain that has been this long below its highest block has been reorganised, or begun anew. */
const HIGHEST_MS = 15_000;

export type ChainOptions = Depths & {
  rpcUrl: Secret;
  /** N of `eip155:N`; the node of any other chain is refused. */
  chainId: number;
  /** Time for each question to the node. */
  timeoutMs: number;
  /** A longer answer is not read to its end; without it 8 MiB. */
  answerBytesMax?: number;
  /** Pause before a problem of a token is looked for again; without it 3 s. */
  lookAgainMs?: number;
  clock: Clock;
  log: Logger;
};

/** Reads one EVM chain. Every read may throw `payment.unavailable`. A question that the node fails at is asked again (`askAgain`). */
export type Chain = {
  /** How many blocks must be on top of the one that pays. */
  readonly confirmations: number;
  evidenceOf: EvidenceOf;
  /** The head at the last read. Once started, it is read every two seconds in the background. */
  head(): Head | undefined;
  /** The head as it is now. */
  freshHead(): Promise<Head>;
  transfersTo(range: TransferRange): AsyncGenerator<Transfer>;
  /** What could be paid by this authorization at the newest block. No answer is older than the question. */
  stateOf(authorization: AuthorizationName): Promise<AuthorizationState>;
  /** What the contract of a payer says of a signature, at the newest block. */
  askContract(question: Question): Promise<ContractVerdict>;
  /** Whether a contract takes a signature (ERC-1271), at the newest block. */
  hasSigned(signature: ContractSignature): Promise<boolean>;
  /** What has spent the authorization, in this block or one of the many before it. */
  spentBefore(authorization: TokenAuthorization, block: bigint): Promise<Spend | undefined>;
  /** The wanted transfers from some senders, the oldest first. */
  transfersFrom(range: SentRange, isWanted: IsWanted): AsyncGenerator<SentTransfer>;
  /**
   * What the receipt of this transaction shows of the authorization, at any depth; undefined if it is in no block. A receipt that is too
   * long to be read shows nothing.
   */
  proofOf(transaction: Hex, authorization: TokenAuthorization): Promise<PlacedEvidence | undefined>;
  /** Whether this block is as deep as configured under the last head. */
  isDeep(block: bigint): boolean;
  /** Whether a token's contract and this node are as the configuration says (`checkToken`). A problem is looked for twice. */
  check(token: CheckedToken): Promise<TokenFindings>;
  start(): void;
  close(): Promise<void>;
};

type PlacedEvidence = ReceiptEvidence & { block: bigint };

type AuthorizationState = {
  /** Used, cancelled or invalidated. */
  isSpent: boolean;
  /** In units of the token. */
  balance: bigint;
  /** How many units its owner lets the method move. */
  allowance: bigint;
  head: Head;
};

export function createChain(options: ChainOptions): Chain {
  const { chainId, confirmations, clock, log } = options;
  const { rpcUrl: url, timeoutMs, answerBytesMax, lookAgainMs = 3000 } = options;
  const once = createRpc({ url, timeoutMs, answerBytesMax });
  const rpc = onlyOf(chainId, askAgain(once, { timeoutMs, isAway: () => heads.isLost() }));
  const reads = createReads(rpc);
  const search = createLogSearch(rpc, clock);
  const heads = createHeadWatch(reads, chainId, clock, log);

  /** Behind one URL may be a node that does not know yet what another one has told: money that has just come, or a block. */
  async function atNewest<Answer>(ask: (head: Head) => Promise<Answer | undefined>): Promise<Answer> {
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
    return atNewest(async (head) => {
      const [isSpent, balance, allowance] = await Promise.all([
        untilKnown(() => isSpentAt(reads, authorization, head)),
        untilKnown(() => unitsAt(reads, balanceOf, head)),
        allowanceCall === undefined ? UINT256_MAX : untilKnown(() => unitsAt(reads, allowanceCall, head)),
      ]);
      if (isSpent === undefined || balance === undefined || allowance === undefined) return undefined;
      return { isSpent, balance, allowance, head };
    });
  }

  return {
    confirmations,
    stateOf,
    askContract: (question) => atNewest((head) => untilKnown(() => askContract(reads, question, head))),
    hasSigned: (signed) => atNewest((head) => untilKnown(() => askWhetherSigned(reads, signed, head))),
    spentBefore: createSpentBefore(reads, search),
    evidenceOf: createEvidence(reads, search, options),
    head: heads.last,
    freshHead: heads.fresh,
    transfersTo: createTransfers(reads, search),
    transfersFrom: createSentTransfers(reads, search),
    async proofOf(transaction, authorization) {
      const receipt = await reads.receipt(transaction).catch(unlessTooLong);
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
      const look = () => checkToken(reads, search, token, options).catch(unlessWrongChain);
      const found = await look();
      if (found.problems.length === 0) return found;
      // One of several nodes behind one URL may be behind, and a chain of one's own may be just begun.
      await delay(lookAgainMs);
      return look();
    },
    start: heads.start,
    close: heads.close,
  };
}

/** Asks again whoever does not know the block. */
async function untilKnown<Answer>(read: () => Promise<Answer | undefined>): Promise<Answer | undefined> {
  let answer = await read();
  for (let tries = READ_TRIES; answer === undefined && tries > 1; tries--) answer = await read();
  return answer;
}

/** The sum that the token answers with. Undefined if the node has no such block. */
async function unitsAt(
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

/** Asks the node first, and once, which chain it serves: on another chain every payment would look unpaid. */
function onlyOf(chainId: number, rpc: Rpc): Rpc {
  let checked: Promise<void> | undefined;
  const check = async (): Promise<void> => {
    const served = await rpc({ method: "eth_chainId", params: [], answer: ChainId });
    if (served !== BigInt(chainId)) throw new WrongChain(`the node serves chain ${served}, not ${chainId}`);
  };
  return async (call) => {
    checked ??= check();
    await checked.catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return rpc(call);
  };
}

/** The chain's newest block, read at `at` (unix milliseconds, our clock). */
type Head = Block & { at: number };

/** Follows the head in the background; logs once that the node is lost, and once that it is back. */
function createHeadWatch(reads: Reads, chainId: number, clock: Clock, log: Logger) {
  let head: Head | undefined;
  let highest: Head | undefined;
  let lost = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> | undefined;
  /** The read under way, and the one after it that others wait for. */
  let reading: Promise<Head> | undefined;
  let next: Promise<Head> | undefined;

  async function read(): Promise<Head> {
    const block = await reads.block("latest");
    head = { ...block, at: clock() };
    if (!isBehind(head)) highest = head;
    return head;
  }

  function isBehind({ number, at }: Head): boolean {
    return highest !== undefined && number < highest.number && at - highest.at < HIGHEST_MS;
  }

  /** All who ask while a read is under way share the next one: theirs must not have begun before they asked. */
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
    /** Whether the last read in the background has failed. */
    isLost: (): boolean => lost,
    fresh,
    /** Whether a node has told a higher block not long ago. */
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
