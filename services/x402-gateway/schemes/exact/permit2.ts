import { z } from "zod";
import { type Hex, uintWord } from "../../../../shared/chain/encoding.ts";
import { EXACT_PROXY, permit2Separator, permitDigest } from "../../../../shared/chain/permit2.ts";
import { type AssetTransferMethod, address, type SignedTransfer, uint256 } from "../scheme.ts";

const transfer = z
  .strictObject({
    permitted: z.strictObject({ token: address, amount: uint256 }),
    from: address,
    spender: address.refine(
      (spender) => spender.toLowerCase() === EXACT_PROXY.toLowerCase(),
      `must be the x402 proxy, ${EXACT_PROXY}`,
    ),
    nonce: uint256,
    deadline: uint256,
    witness: z.strictObject({ to: address, validAfter: uint256 }),
  })
  .transform(({ permitted, from, nonce, deadline, witness }): SignedTransfer => {
    const { token: asset, amount: value } = permitted;
    const times = { validAfter: witness.validAfter, validBefore: deadline };
    const word: Hex = `0x${uintWord(nonce)}`;
    return { asset, from, to: witness.to, value, ...times, nonce: word };
  });

/**
 * Transfer method for exact amounts of any token. It uses Permit2, a contract that transfers a token if its owner has signed
 * that. The payer signs a transfer that only one other contract, the x402 proxy, may request from Permit2.
 */
export const permit2: AssetTransferMethod = {
  name: "permit2",
  hasV1: false,
  /** The `extra` of an offer has the `name` of the token's EIP-712 domain only if the token supports permits of EIP-2612. */
  gasSponsorings: ({ name }) =>
    name === undefined
      ? ["erc20ApprovalGasSponsoring"]
      : ["eip2612GasSponsoring", "erc20ApprovalGasSponsoring"],
  member: "permit2Authorization",
  transfer,
  separatorOf: ({ chainId }) => permit2Separator(chainId),
  digest: (signed, separator) => permitDigest(separator, signed),
  toMember({ asset, from, to, value, validAfter, validBefore, nonce }) {
    return {
      from,
      permitted: { token: asset, amount: String(value) },
      spender: EXACT_PROXY,
      nonce: String(BigInt(nonce)),
      deadline: String(validBefore),
      witness: { to, validAfter: String(validAfter) },
    };
  },
};
