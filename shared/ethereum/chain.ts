import type { Secret } from "../crypto/secret.ts";
import { messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Clock } from "../time/clock.ts";
import type { Hex } from "./encoding.ts";
import { createEvidence, type EvidenceOf } from "./evidence.ts";
import { createLogSearch, isPayment, type TokenAuthorization } from "./logs.ts";
import { ChainId, createReads, createRpc, type Reads, type Rpc, unavailable } from "./rpc.ts";
import { createTransfers, type Transfer, type TransferRange } from "./transfers.ts";

const HEAD_EVERY_MS = 2000;

type Options = {
  rpcUrl: Secret;
  /** N of `eip155:N`; the node of any other chain is refused. */
  chainId: number;
  /** How many blocks must be on top of the one that pays; with 0 the latest block will do. */
  confirmations: number;
  /** Time for each question to the node. */
  timeoutMs: number;
  clock: Clock;
  log: Logger;
};

/** Reads one EVM chain. Every read may throw `payment.unavailable`; none is repeated here. */
export type Chain = {
  evidenceOf: EvidenceOf;
  /** The head at the last read. Once started, it is read every two seconds in the background. */
  head(): Head | undefined;
  /** The head as it is now. */
  freshHead(): Promise<Head>;
  transfersTo(range: TransferRange): AsyncGenerator<Transfer>;
  /** The block in which this transaction pays, at any depth; undefined if it is in no block, or does not pay. */
  blockPaidIn(transaction: Hex, authorization: TokenAuthorization): Promise<bigint | undefined>;
  /** Whether this transaction pays, and is as deep as configured under the last head. False proves nothing. */
  showsPaid(transaction: Hex, authorization: TokenAuthorization): Promise<boolean>;
  start(): void;
  close(): Promise<void>;
};

export function createChain(options: Options): Chain {
  const { chainId, confirmations, clock, log } = options;
  const rpc = onlyOf(chainId, createRpc({ url: options.rpcUrl, timeoutMs: options.timeoutMs }));
  const reads = createReads(rpc);
  const search = createLogSearch(rpc);
  const heads = createHeadWatch(reads, chainId, clock, log);

  async function blockPaidIn(
    transaction: Hex,
    authorization: TokenAuthorization,
  ): Promise<bigint | undefined> {
    const receipt = await reads.receipt(transaction);
    return receipt && isPayment(receipt, authorization) ? receipt.blockNumber : undefined;
  }

  return {
    evidenceOf: createEvidence(reads, search, confirmations),
    head: heads.last,
    freshHead: heads.read,
    transfersTo: createTransfers(reads, search),
    blockPaidIn,
    async showsPaid(transaction, authorization) {
      const block = await blockPaidIn(transaction, authorization);
      const head = heads.last();
      return block !== undefined && head !== undefined && head.number - block >= BigInt(confirmations);
    },
    start: heads.start,
    close: heads.close,
  };
}

/** Asks the node first, and once, which chain it serves: on another chain every payment would look unpaid. */
function onlyOf(chainId: number, rpc: Rpc): Rpc {
  let checked: Promise<void> | undefined;
  const check = async (): Promise<void> => {
    const served = await rpc({ method: "eth_chainId", params: [], answer: ChainId });
    if (served !== BigInt(chainId)) throw unavailable(`the node serves chain ${served}, not ${chainId}`);
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
type Head = { number: bigint; timestamp: bigint; at: number };

/** Follows the head in the background; logs once that the node is lost, and once that it is back. */
function createHeadWatch(reads: Reads, chainId: number, clock: Clock, log: Logger) {
  let head: Head | undefined;
  let lost = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> | undefined;

  async function read(): Promise<Head> {
    head = { ...(await reads.block("latest")), at: clock() };
    return head;
  }

  async function poll(): Promise<void> {
    try {
      await read();
      if (lost) log.info("chain.returned", { chainId });
      lost = false;
    } catch (error) {
      if (!lost) log.warn("chain.lost", { chainId, reason: messageOf(error) });
      lost = true;
    }
    if (timer !== undefined) timer = setTimeout(next, HEAD_EVERY_MS);
  }

  function next(): void {
    polling = poll();
  }

  return {
    last: (): Head | undefined => head,
    read,
    start(): void {
      if (timer !== undefined) return;
      timer = setTimeout(next, 0);
    },
    async close(): Promise<void> {
      clearTimeout(timer);
      timer = undefined;
      await polling;
    },
  };
}
