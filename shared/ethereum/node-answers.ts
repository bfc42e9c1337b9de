import { z } from "zod";

/** 0x and hex digits, in lower case. */
export type Hex = `0x${string}`;

const hex = z
  .string()
  .regex(/^0x[0-9a-fA-F]*$/)
  .transform((text) => text.toLowerCase() as Hex);

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform(BigInt);

/** Of a block: what evidence needs. */
export const Block = z.object({ number: quantity, timestamp: quantity });
export type Block = z.infer<typeof Block>;

/** A log of the contract ABI, as eth_getLogs and receipts have it. */
export const Log = z.object({
  address: hex,
  topics: z.array(hex),
  data: hex,
  blockNumber: quantity,
  blockHash: hex,
  transactionHash: hex,
  logIndex: quantity.transform(Number),
});
export type Log = z.infer<typeof Log>;

export const Logs = z.array(Log);

/** Null where the node knows no such transaction in its chain. */
export const Receipt = z.nullable(
  z.object({
    status: quantity,
    blockNumber: quantity,
    blockHash: hex,
    transactionHash: hex,
    logs: Logs,
  }),
);
export type Receipt = NonNullable<z.infer<typeof Receipt>>;

export const Bytes = hex;
export const ChainId = quantity;

export function toQuantity(value: bigint): Hex {
  return `0x${value.toString(16)}`;
}
