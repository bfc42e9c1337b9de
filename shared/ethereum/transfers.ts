import type { Hex } from "./encoding.ts";
import { addressIn, addressTopic, type LogSearch } from "./logs.ts";
import {
  amountOf,
  authorizationIn,
  type EventOrder,
  type Pair,
  pairsIn,
  positionIn,
  TRANSFER,
} from "./proof.ts";
import { type Log, type Reads, type Receipt, unavailable } from "./rpc.ts";

export type Transfer = {
  transaction: Hex;
  block: bigint;
  logIndex: number;
  from: Hex;
  to: Hex;
  value: bigint;
  /** The authorization that moved it; absent if the transfer was made in another way. */
  authorization?: { authorizer: Hex; nonce: Hex };
};

export type TransferRange = {
  asset: Hex;
  eventOrder: EventOrder;
  payTo: Hex;
  fromBlock: bigint;
  toBlock: bigint;
};

/** A transfer, and its place in its receipt (`positionIn`). */
export type SentTransfer = Omit<Transfer, "authorization" | "logIndex"> & { position: number };

export type SentRange = {
  asset: Hex;
  /** In any case. */
  senders: readonly Hex[];
  fromBlock: bigint;
  toBlock: bigint;
};

/** Whether the receipt of a transfer is worth asking for. */
export type IsWanted = (transfer: Omit<SentTransfer, "position">) => boolean;

/** Yields the wanted transfers of `asset` from any of the senders in a range of blocks, both ends included, the oldest first. */
export function createSentTransfers(reads: Reads, search: LogSearch) {
  const receiptOf = createReceiptOf(reads);
  return async function* transfersFrom(range: SentRange, isWanted: IsWanted): AsyncGenerator<SentTransfer> {
    const { asset, senders, fromBlock, toBlock } = range;
    // To a node, a list of none is any.
    if (senders.length === 0) return;
    const known = new Set(senders.map((sender) => sender.toLowerCase()));
    const topics = [TRANSFER, senders.map(addressTopic)];
    for await (const { logs } of search({ address: asset, topics, fromBlock, toBlock })) {
      for (const log of logs) {
        const { authorization: _, logIndex, ...transfer } = toTransfer(log, []);
        if (!known.has(transfer.from) || !isWanted(transfer)) continue;
        yield { ...transfer, position: positionIn(await receiptOf(log), logIndex) };
      }
    }
  };
}

/** Yields every transfer of `asset` to `payTo` in a range of blocks, both ends included, the oldest first. */
export function createTransfers(reads: Reads, search: LogSearch) {
  const receiptOf = createReceiptOf(reads);
  return async function* transfersTo(range: TransferRange): AsyncGenerator<Transfer> {
    const { asset, eventOrder, payTo, fromBlock, toBlock } = range;
    const topics = [TRANSFER, null, addressTopic(payTo)];
    for await (const { logs } of search({ address: asset, topics, fromBlock, toBlock })) {
      let receipt: Receipt | undefined;
      for (const log of logs) {
        if (receipt?.transactionHash !== log.transactionHash) receipt = await receiptOf(log);
        yield toTransfer(log, pairsIn(receipt, asset, eventOrder));
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

function toTransfer(log: Log, pairs: readonly Pair[]): Transfer {
  const [, from, to] = log.topics as [Hex, Hex, Hex];
  const pair = pairs.find(({ transfer }) => transfer.logIndex === log.logIndex);
  return {
    transaction: log.transactionHash,
    block: log.blockNumber,
    logIndex: log.logIndex,
    from: addressIn(from),
    to: addressIn(to),
    value: amountOf(log),
    ...(pair && { authorization: authorizationIn(pair.used) }),
  };
}
