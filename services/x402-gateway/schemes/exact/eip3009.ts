import { z } from "zod";
import type { Hex } from "../../../../shared/chain/encoding.ts";
import { authorizationDigest, domainSeparator } from "../../../../shared/chain/typed-data.ts";
import { type AssetTransferMethod, address, uint256 } from "../scheme.ts";

const transfer = z.strictObject({
  from: address,
  to: address,
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: z
    .string()
    .regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 64 hex digits")
    .transform((text) => text as Hex),
});

/**
 * Transfer method for exact amounts of a token whose contract implements EIP-3009. The payer signs for the token's own EIP-712
 * domain.
 */
export const eip3009: AssetTransferMethod = {
  name: "eip3009",
  hasV1: true,
  gasSponsorings: () => [],
  member: "authorization",
  transfer,
  separatorOf({ chainId, asset, extra: { name, version } }) {
    if (typeof name !== "string" || typeof version !== "string") return undefined;
    return domainSeparator({ name, version, chainId, verifyingContract: asset });
  },
  digest: (signed, separator) => authorizationDigest(separator, signed),
  toMember({ from, to, value, validAfter, validBefore, nonce }) {
    const numbers = {
      value: String(value),
      validAfter: String(validAfter),
      validBefore: String(validBefore),
    };
    return { from, to, nonce, ...numbers };
  },
};
