import type { Hex } from "./encoding.ts";
import { AUTHORIZATION_USED, addressIn, addressTopic, adjacent, type LogSearch, TRANSFER } from "./logs.ts";
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

export type TransferRange = { asset: Hex; payTo: Hex; fromBlock: bigint; toBlock: bigint };

/** Yields every transfer of `asset` to `payTo` in a range of blocks, both ends included, the oldest first. */
export function createTransfers(reads: Reads, search: LogSearch) {
  return async function* transfersTo(range: TransferRange): AsyncGenerator<Transfer> {
    const { asset, payTo, fromBlock, toBlock } = range;
    const topics = [TRANSFER, null, addressTopic(payTo)];
    for await (const logs of search({ address: asset, topics, fromBlock, toBlock })) {
      let receipt: Receipt | undefined;
      for (const log of logs) {
        if (receipt?.transactionHash !== log.transactionHash) receipt = await receiptOf(log);
        yield toTransfer(log, receipt);
      }
    }
  };

  async function receiptOf({ transactionHash, blockHash }: Log): Promise<Receipt> {
    const receipt = await reads.receipt(transactionHash);
    if (receipt?.blockHash === blockHash) return receipt;
    throw unavailable(`the chain changed while transfers were read, at transaction ${transactionHash}`);
  }
}

function toTransfer(log: Log, { logs }: Receipt): Transfer {
  const [, from, to] = log.topics as [Hex, Hex, Hex];
  const before = adjacent(logs).find(([, next]) => next.logIndex === log.logIndex)?.[0];
  return {
    transaction: log.transactionHash,
    block: log.blockNumber,
    logIndex: log.logIndex,
    from: addressIn(from),
    to: addressIn(to),
    value: BigInt(log.data),
    ...(before?.topics[0] === AUTHORIZATION_USED && { authorization: authorizationIn(before) }),
  };
}

function authorizationIn({ topics }: Log): { authorizer: Hex; nonce: Hex } {
  const [, authorizer, nonce] = topics as [Hex, Hex, Hex];
  return { authorizer: addressIn(authorizer), nonce };
}
