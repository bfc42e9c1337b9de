import type { Address } from "../../shared/ethereum/address.ts";
import type { SignedQuote } from "../../shared/pricing/quote-header.ts";
import type { SettlementOption } from "../../shared/pricing/settlement-options.ts";

/** What a client asks, as it came: nothing is checked. */
export type JobPriceRequest = {
  serviceId: bigint;
  jobIndex: number;
  proofOfWork: Uint8Array;
  /** Unix seconds; 0 where there was none. */
  challengeTimestamp: bigint;
  requireTee: boolean;
  requester: Uint8Array;
  inputsHash: Uint8Array;
};

export type JobPriceAnswer = {
  signed: SignedQuote;
  operator: Address;
  /** The request's. */
  proofOfWork: Uint8Array;
  /** How and where the quote can be settled off chain; absent where the engine says nothing of it. */
  settlement: Settlement | undefined;
};

export type Settlement = { options: readonly SettlementOption[]; endpoint: string };

export type GetJobPrice = (request: JobPriceRequest) => Promise<JobPriceAnswer>;
