import type { Address } from "./address.ts";
import { type Hex, toHex } from "./encoding.ts";
import { keccak256 } from "./keccak.ts";
import { recoverAddress } from "./signatures.ts";

/** A signed transaction of EIP-1559. Addresses and data are in lower case. */
export type RawTransaction = {
  chainId: bigint;
  nonce: bigint;
  maxPriorityFeePerGas: bigint;
  maxFeePerGas: bigint;
  gas: bigint;
  to: Hex;
  value: bigint;
  data: Hex;
  hasAccessList: boolean;
  /** Undefined if no key can be recovered. */
  signer: Address | undefined;
};

/** The type byte before the list of fields (EIP-2718). */
const EIP_1559 = 2;
const FIELDS = 12;
/** Number of signed fields. They come first; the signature's parity, r and s follow. */
const SIGNED_FIELDS = 9;

/**
 * Parses a signed transaction of EIP-1559. Undefined for any other bytes. Nested lists are not parsed, so the work is linear in the length.
 */
export function parseRawTransaction(raw: Hex): RawTransaction | undefined {
  const bytes = Buffer.from(raw.slice(2), "hex");
  const list = bytes[0] === EIP_1559 ? itemAt(bytes, 1) : undefined;
  if (list?.isList !== true || list.end !== bytes.length) return undefined;
  const items = itemsIn(bytes, list);
  const lastSigned = items?.[SIGNED_FIELDS - 1];
  if (items?.length !== FIELDS || lastSigned === undefined) return undefined;
  const [chainId, nonce, tip, fee, gas, to, value, data, accessList, parity, r, s] = items.map(
    ({ start, end }) => toHex(bytes.subarray(start, end)),
  ) as [Hex, Hex, Hex, Hex, Hex, Hex, Hex, Hex, Hex, Hex, Hex, Hex];
  const unsigned = bytes.subarray(list.start, lastSigned.end);
  const digest = keccak256(Buffer.concat([Buffer.of(EIP_1559), listHead(unsigned.length), unsigned]));
  const v = numberIn(parity) === 0n ? "1b" : "1c";
  return {
    chainId: numberIn(chainId),
    nonce: numberIn(nonce),
    maxPriorityFeePerGas: numberIn(tip),
    maxFeePerGas: numberIn(fee),
    gas: numberIn(gas),
    to,
    value: numberIn(value),
    data,
    hasAccessList: accessList !== "0x",
    signer: recoverAddress(digest, `0x${wordOf(r)}${wordOf(s)}${v}`),
  };
}

/** The content of an RLP item, as offsets. */
type Item = { isList: boolean; start: number; end: number };

function itemsIn(bytes: Buffer, { start, end }: Item): Item[] | undefined {
  const items: Item[] = [];
  for (let at = start; at < end; ) {
    const item = itemAt(bytes, at);
    if (item === undefined || item.end > end) return undefined;
    items.push(item);
    at = item.end;
  }
  return items;
}

/** The RLP item at this offset. Undefined if the item is incomplete or longer than 64 KiB. */
function itemAt(bytes: Buffer, at: number): Item | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 0x80) return { isList: false, start: at, end: at + 1 };
  const isList = first >= 0xc0;
  const size = first - (isList ? 0xc0 : 0x80);
  const sizeBytes = Math.max(0, size - 55);
  const start = at + 1 + sizeBytes;
  if (sizeBytes > 2 || start > bytes.length) return undefined;
  const end = start + (sizeBytes === 0 ? size : bytes.readUIntBE(at + 1, sizeBytes));
  return end > bytes.length ? undefined : { isList, start, end };
}

function listHead(size: number): Buffer {
  if (size < 56) return Buffer.of(0xc0 + size);
  return size < 256 ? Buffer.of(0xf8, size) : Buffer.of(0xf9, size >> 8, size & 0xff);
}

function numberIn(bytes: Hex): bigint {
  return bytes === "0x" ? 0n : BigInt(bytes);
}

function wordOf(bytes: Hex): string {
  return bytes.slice(2).padStart(64, "0");
}
