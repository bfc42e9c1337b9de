import type { Hex } from "./encoding.ts";
import { addressIn, addressTopic, type LogSearch } from "./logs.ts";
import { methodOnChain, type TransferMethod } from "./payment-schemes.ts";
import { amountOf, type EventOrder, type MovedTransfer, positionIn, TRANSFER } from "./proof.ts";
import type { Log, Reads, Receipt } from "./rpc.ts";
import { unavailable } from "./rpc-errors.ts";

export type Transfer = {
  transaction: Hex;
  block: bigint;
  /** The position of the transfer in its receipt (`positionIn`). */
  position: number;
  from: Hex;
  to: Hex;
  value: bigint;
  /** The authorization that moved the token. Absent if the receipt shows none. */
  authorization?: MovedTransfer["authorization"];
};

export type TransferRange = {
  asset: Hex;
  method: TransferMethod;
  /** The event order of an EIP-3009 token. Undefined counts as `used_first`. */
  eventOrder: EventOrder | undefined;
  payTo: Hex;
  fromBlock: bigint;
  toBlock: bigint;
  /** Aborted once the transfers are no longer wanted. The search then throws. */
  signal?: AbortSignal | undefined;
};

export type SentTransfer = Omit<Transfer, "authorization">;

export type SentRange = {
  asset: Hex;
  /** Addresses, in upper or lower case. */
  senders: readonly Hex[];
  fromBlock: bigint;
  toBlock: bigint;
  /** Aborted once the transfers are no longer wanted. The search then throws. */
  signal?: AbortSignal | undefined;
};

/** Decides whether the caller needs this transfer, before its receipt is requested. */
export type IsWanted = (transfer: Omit<SentTransfer, "position">) => boolean;

/**
 * Yields the transfers of `asset` from any of the senders that `isWanted` selects, oldest first. The range of blocks includes
 * both ends.
 */
export function createSentTransfers(reads: Reads, search: LogSearch) {
  const receiptOf = createReceiptOf(reads);
  return async function* transfersFrom(range: SentRange, isWanted: IsWanted): AsyncGenerator<SentTransfer> {
    const { asset, senders, fromBlock, toBlock, signal } = range;
    // In eth_getLogs, an empty list of senders matches every sender.
    if (senders.length === 0) return;
    const known = new Set(senders.map((sender) => sender.toLowerCase()));
    const topics = [TRANSFER, senders.map(addressTopic)];
    for await (const { logs } of search({ address: asset, topics, fromBlock, toBlock, signal })) {
      for (const log of logs) {
        signal?.throwIfAborted();
        const transfer = toTransfer(log);
        if (!known.has(transfer.from) || !isWanted(transfer)) continue;
        yield { ...transfer, position: positionIn(await receiptOf(log), log.logIndex) };
      }
    }
  };
}

/** Yields every transfer of `asset` to `payTo`, oldest first. The range of blocks includes both ends. */
export function createTransfers(reads: Reads, search: LogSearch) {
  const receiptOf = createReceiptOf(reads);
  return async function* transfersTo(range: TransferRange): AsyncGenerator<Transfer> {
    const { asset, method, payTo, fromBlock, toBlock, signal } = range;
    const { transfersIn } = methodOnChain(method);
    const topics = [TRANSFER, null, addressTopic(payTo)];
    for await (const { logs } of search({ address: asset, topics, fromBlock, toBlock, signal })) {
      let receipt: Receipt | undefined;
      let moved: readonly MovedTransfer[] = [];
      for (const log of logs) {
        signal?.throwIfAborted();
        if (receipt?.transactionHash !== log.transactionHash) {
          receipt = await receiptOf(log);
          moved = await transfersIn(receipt, range, reads.transaction);
        }
        const found = moved.find(({ transfer }) => transfer.logIndex === log.logIndex);
        const position = positionIn(receipt, log.logIndex);
        yield { ...toTransfer(log), position, ...(found && { authorization: found.authorization }) };
      }
    }
  };
}

function createReceiptOf(reads: Reads) {
  return async ({ transactionHash, blockHash }: Log): Promise<Receipt> => {
    const receipt = await reads.receipt(transactionHash);
    if (receipt?.blockHash === blockHash) return receipt;
    throw unavailable(`the chain changed while transfers were read, at transaction ${transactionHash}`);
  };
}

function toTransfer(log: Log): Omit<SentTransfer, "position"> {
  const [, from, to] = log.topics as [Hex, Hex, Hex];
  return {
    transaction: log.transactionHash,
    block: log.blockNumber,
    from: addressIn(from),
    to: addressIn(to),
    value: amountOf(log),
  };
}
