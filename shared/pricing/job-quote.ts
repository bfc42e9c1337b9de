import type { Address } from "../ethereum/address.ts";
import { addressWord, bytes32Word, uintWord } from "../ethereum/encoding.ts";
import { hashOfText, typedDataDigest } from "../ethereum/typed-data.ts";

/** What an operator signs: the price of one job on these inputs, for this requester, until its expiry. */
export type JobQuote = {
  /** In lower case. */
  requester: Address;
  serviceId: bigint;
  jobIndex: number;
  priceWei: bigint;
  /** Unix seconds. */
  timestamp: bigint;
  /** Unix seconds; at this second the quote is still good. */
  expiry: bigint;
  /** 0: no confidentiality is promised. */
  confidentiality: number;
  /** Keccak-256 of the inputs: 0x and 64 lower-case hex digits. */
  inputsHash: `0x${string}`;
};

const QUOTE_TYPE = hashOfText(
  "JobQuoteDetails(address requester,uint64 serviceId,uint8 jobIndex,uint256 price,uint64 timestamp,uint64 expiry,uint8 confidentiality,bytes32 inputsHash)",
);

/** The largest job index a quote can name: the chain's side keeps it in eight bits. */
export const QUOTED_JOB_INDEX_MAX = 255;

/** The 32 bytes an operator signs for a quote (EIP-712), and the name of the quote everywhere else. */
export function jobQuoteDigest(separator: string, quote: JobQuote): Uint8Array {
  return typedDataDigest(separator, [
    QUOTE_TYPE,
    addressWord(quote.requester),
    uintWord(quote.serviceId),
    uintWord(BigInt(quote.jobIndex)),
    uintWord(quote.priceWei),
    uintWord(quote.timestamp),
    uintWord(quote.expiry),
    uintWord(BigInt(quote.confidentiality)),
    bytes32Word(quote.inputsHash),
  ]);
}
