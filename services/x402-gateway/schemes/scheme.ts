import { z } from "zod";
import { type Address, isAddress } from "../../../shared/chain/address.ts";
import { UINT256_MAX } from "../../../shared/chain/encoding.ts";
import type { TransferMethod } from "../../../shared/chain/payment-schemes.ts";
import type { AuthorizedTransfer } from "../../../shared/chain/proof.ts";
import type { Authorization } from "../../../shared/chain/typed-data.ts";

/** A payment scheme of x402. */
export type Scheme = {
  /**
   * Whether a signed transfer of this value pays an offer of this amount. A scheme may accept only an equal value. The reason is
   * that the journal keeps only the offer's amount (`terms.amount`), and other code computes the signed text, the transfer and
   * the refund from it.
   */
  pays(value: bigint, amount: bigint): boolean;
  /** Transfer methods of the scheme, by name. A payload is read by the first method whose `member` it has. */
  methods: Readonly<Record<string, AssetTransferMethod>>;
  /** Returns the method that the `extra` of an offer names, or the default method. */
  methodIn(extra: Extra): AssetTransferMethod;
};

/**
 * Transfer that a payer signs. `asset` is set if the signed text names the token. Otherwise the EIP-712 domain of the signature
 * names it.
 */
export type SignedTransfer = Authorization & { asset?: Address };

/** Extensions of x402 by which a facilitator sends an approval that a payer has signed, and pays its gas. */
export type GasSponsoring = "eip2612GasSponsoring" | "erc20ApprovalGasSponsoring";

/** A transfer method of a scheme. It reads, checks and makes the payments that use this method. */
export type AssetTransferMethod = {
  /** Name of the method in the journal. */
  name: TransferMethod;
  /** Whether version 1 of the protocol has this method. */
  hasV1: boolean;
  /** Returns the extensions that can approve the token of an offer for this method, the preferred one first. */
  gasSponsorings(extra: Extra): readonly GasSponsoring[];
  /** Name of the member of `payload` that has the transfer. */
  member: string;
  /** Schema that reads this member strictly. */
  transfer: z.ZodType<SignedTransfer>;
  /** Returns the separator of the EIP-712 domain that payers sign for. Undefined if the offer's `extra` lacks a part of it. */
  separatorOf(token: { chainId: number; asset: string; extra: Extra }): string | undefined;
  /** Returns the 32 bytes that a payer signs. */
  digest(transfer: AuthorizedTransfer, separator: string): Uint8Array;
  /** Returns the member of `payload` for a transfer, in the form in which clients send it. */
  toMember(transfer: AuthorizedTransfer): object;
};

/** Member `extra` of an offer. */
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
