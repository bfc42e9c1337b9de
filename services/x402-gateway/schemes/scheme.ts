import { z } from "zod";
import { type Address, isAddress } from "../../../shared/chain/address.ts";
import { UINT256_MAX } from "../../../shared/chain/encoding.ts";
import type { TransferMethod } from "../../../shared/chain/payment-schemes.ts";
import type { AuthorizedTransfer } from "../../../shared/chain/proof.ts";
import type { Authorization } from "../../../shared/chain/typed-data.ts";

/** A scheme of x402. */
export type Scheme = {
  /**
   * Whether a signed transfer of this value pays an offer of this amount. Only an equal value is supported: the journal keeps the offer's
   * amount alone (`terms.amount`), and from it the signed text is made again and transfers and refunds are recognized.
   */
  pays(value: bigint, amount: bigint): boolean;
  /** Its methods. A payload with the members of several is read by the first of them. */
  methods: Readonly<Record<string, AssetTransferMethod>>;
  /** The method that the `extra` of an offer names, or the one that is meant if it names none. */
  methodIn(extra: Extra): AssetTransferMethod;
};

/** The transfer that a payer signs. `asset` is set if the signed text names the token itself; otherwise its domain does. */
export type SignedTransfer = Authorization & { asset?: Address };

/** A method of a scheme: how its payments are read, checked and made. */
export type AssetTransferMethod = {
  /** The name in the journal. */
  name: TransferMethod;
  /** Whether version 1 of the protocol has it. */
  hasV1: boolean;
  /** The member of `payload` beside the signature. */
  member: string;
  /** Reads that member strictly. */
  transfer: z.ZodType<SignedTransfer>;
  /** The separator of the domain that payers sign for. Undefined if the offer's `extra` lacks a part of it. */
  separatorOf(token: { chainId: number; asset: string; extra: Extra }): string | undefined;
  /** The 32 bytes that a payer signs. */
  digest(transfer: AuthorizedTransfer, separator: string): Uint8Array;
  /** Writes the member of `payload` as a client does. */
  toMember(transfer: AuthorizedTransfer): object;
};

/** The member `extra` of an offer. */
export type Extra = Readonly<Record<string, unknown>>;

export const address = z
  .string()
  .refine(isAddress, "must be 0x and 40 hex digits")
  .transform((text) => text as Address);

export const uint256 = z
  .string()
  .regex(/^(0|[1-9]\d{0,77})$/, "must be an integer in decimal, as a string")
  .transform((text) => BigInt(text))
  .refine((value) => value <= UINT256_MAX, "must be at most 2^256-1");
