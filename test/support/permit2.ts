import { randomBytes } from "node:crypto";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { concat, decodeFunctionData, encodeFunctionData, maxUint256, multicall3Abi } from "viem";
import { ADDRESSES, type Chain, type DevAccount, type Hex } from "../../services/dev/chain/chain.ts";
import { exactPermit2ProxyAbi } from "../../services/dev/chain/contracts/exact-permit2-proxy.ts";
import { permit2Abi } from "../../services/dev/chain/contracts/permit2.ts";
import { tokenAbi } from "../../services/dev/chain/contracts/token.ts";
import type { Call, Sending } from "./devnet.ts";
import { encodeHeader, inTenMinutes, type Payer, type SignedPayment, signTyped } from "./sign-payment.ts";

/** The wire format: numbers are decimal strings. */
export type WirePermit2Authorization = {
  from: Hex;
  permitted: { token: Hex; amount: string };
  spender: Hex;
  nonce: string;
  deadline: string;
  witness: { to: Hex; validAfter: string };
};

export type SignedPermit2 = { permit2Authorization: WirePermit2Authorization; signature: Hex };

export type Permit2Choice = {
  payer: Payer;
  to: Hex;
  value: bigint;
  token: Hex;
  chainId: number;
  validAfter?: bigint;
  /** Default: ten minutes from now. */
  deadline?: bigint;
  /** Default: a random nonce. */
  nonce?: bigint;
  /** Default: the proxy of x402. */
  spender?: Hex;
};

const PERMISSIONS = [
  { name: "token", type: "address" },
  { name: "amount", type: "uint256" },
] as const;

const TRANSFER = [
  { name: "permitted", type: "TokenPermissions" },
  { name: "spender", type: "address" },
  { name: "nonce", type: "uint256" },
  { name: "deadline", type: "uint256" },
] as const;

/** Permit2's typed data, in the form of EIP-712 libraries. */
const WITNESS_TYPES = {
  PermitWitnessTransferFrom: [...TRANSFER, { name: "witness", type: "Witness" }],
  TokenPermissions: PERMISSIONS,
  Witness: [
    { name: "to", type: "address" },
    { name: "validAfter", type: "uint256" },
  ],
} as const;
const TRANSFER_TYPES = { PermitTransferFrom: TRANSFER, TokenPermissions: PERMISSIONS } as const;

const domainOn = (chainId: number) =>
  ({ name: "Permit2", chainId, verifyingContract: ADDRESSES.permit2 }) as const;

/** Signs a Permit2 payment with any values, valid or not. */
export async function signPermit2(choice: Permit2Choice): Promise<SignedPermit2> {
  const { payer, to, value, token, chainId } = choice;
  const { validAfter = 0n, deadline = inTenMinutes(), nonce = randomPermit2Nonce() } = choice;
  const spender = choice.spender ?? ADDRESSES.exactPermit2Proxy;
  const permitted = { token, amount: value };
  const signature = await signTyped(payer, {
    domain: domainOn(chainId),
    types: WITNESS_TYPES,
    primaryType: "PermitWitnessTransferFrom",
    message: { permitted, spender, nonce, deadline, witness: { to, validAfter } },
  });
  const permit2Authorization = {
    from: payer.address,
    permitted: { token, amount: String(value) },
    spender,
    nonce: String(nonce),
    deadline: String(deadline),
    witness: { to, validAfter: String(validAfter) },
  };
  return { permit2Authorization, signature };
}

/** Values that a test may choose; the others come from the requirements. */
export type Permit2PaymentChoice = Partial<Omit<Permit2Choice, "payer">> & { payer: Payer };

/** Makes a version 2 payment by Permit2 for these requirements. `more` goes into the payload: `resource`, `extensions`. */
export async function signPermit2Payment(
  accepted: PaymentRequirements,
  choice: Permit2PaymentChoice,
  more: Partial<PaymentPayload> = {},
): Promise<SignedPayment<PaymentPayload, SignedPermit2>> {
  const signed = await signPermit2({
    to: accepted.payTo as Hex,
    value: BigInt(accepted.amount),
    token: accepted.asset as Hex,
    chainId: Number(accepted.network.split(":")[1]),
    ...choice,
  });
  const payload: PaymentPayload = { x402Version: 2, accepted, payload: signed, ...more };
  return { payload, header: encodeHeader(payload), signed };
}

export function randomPermit2Nonce(): bigint {
  return BigInt(`0x${randomBytes(32).toString("hex")}`);
}

/** Returns the call that settles a payment. Its sender may append a suffix to the arguments. */
export function settleCall(
  { permit2Authorization: its, signature }: SignedPermit2,
  suffix: Hex = "0x",
): Call {
  const data = encodeFunctionData({
    abi: exactPermit2ProxyAbi,
    functionName: "settle",
    args: [
      {
        permitted: { token: its.permitted.token, amount: BigInt(its.permitted.amount) },
        nonce: BigInt(its.nonce),
        deadline: BigInt(its.deadline),
      },
      its.from,
      { to: its.witness.to, validAfter: BigInt(its.witness.validAfter) },
      signature,
    ],
  });
  return { to: ADDRESSES.exactPermit2Proxy, data: concat([data, suffix]) };
}

/** Returns the nonce of the permit that this call settles, directly or through another contract. */
export function nonceIn({ to, data }: { to: Hex | null; data: Hex }): bigint | undefined {
  if (to?.toLowerCase() === ADDRESSES.exactPermit2Proxy.toLowerCase()) {
    const { functionName, args } = decodeFunctionData({ abi: exactPermit2ProxyAbi, data });
    if (functionName === "settle") return args[0].nonce;
    return functionName === "settleWithPermit" ? args[1].nonce : undefined;
  }
  if (to?.toLowerCase() !== ADDRESSES.multicall3.toLowerCase()) return undefined;
  const { args } = decodeFunctionData({ abi: multicall3Abi, data });
  const calls = args[0] as readonly { target: Hex; callData: Hex }[];
  return calls
    .map(({ target, callData }) => nonceIn({ to: target, data: callData }))
    .find((each) => each !== undefined);
}

/** Wraps these calls into one transaction by another contract. */
export function wrapCall(...calls: readonly Call[]): Call {
  const args = [
    calls.map(({ to: target, data: callData }) => ({ target, allowFailure: false, callData })),
  ] as const;
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args });
  return { to: ADDRESSES.multicall3, data };
}

type Means = {
  client: Chain;
  send(call: Call, sending?: Sending): Promise<Hex>;
  sendAs(payer: Payer, call: Call, sending?: Sending): Promise<Hex>;
  thirdParty: DevAccount;
};

export type SettleChoice = Sending & {
  suffix?: Hex;
  /** True if another contract makes the call. */
  wrapped?: boolean;
};

/** Creates functions with which payers and third parties use Permit2. */
export function permit2On({ client, send, sendAs, thirdParty }: Means) {
  const permit2 = { address: ADDRESSES.permit2, abi: permit2Abi } as const;
  return {
    /** Allows Permit2 to move the payer's tokens. */
    approve(payer: Payer, token: Hex, amount = maxUint256): Promise<Hex> {
      const args = [ADDRESSES.permit2, amount] as const;
      const data = encodeFunctionData({ abi: tokenAbi, functionName: "approve", args });
      return sendAs(payer, { to: token, data });
    },

    /** Has a third party settle the payment. Anyone who has seen it may do so. */
    settle(signed: SignedPermit2, { suffix, wrapped = false, ...sending }: SettleChoice = {}): Promise<Hex> {
      const call = settleCall(signed, suffix);
      return send(wrapped ? wrapCall(call) : call, sending);
    },

    async isUsed(owner: Hex, nonce: bigint): Promise<boolean> {
      const args = [owner, nonce >> 8n] as const;
      const word = await client.readContract({ ...permit2, functionName: "nonceBitmap", args });
      return ((word >> (nonce & 0xffn)) & 1n) === 1n;
    },

    /** Invalidates the nonce in the payer's name. */
    invalidate(payer: Payer, nonce: bigint, sending: Sending = {}): Promise<Hex> {
      const args = [nonce >> 8n, 1n << (nonce & 0xffn)] as const;
      const data = encodeFunctionData({ abi: permit2Abi, functionName: "invalidateUnorderedNonces", args });
      return sendAs(payer, { to: ADDRESSES.permit2, data }, sending);
    },

    /**
     * Uses the nonce for another payment: the payer signs it for a third party, which moves money from the payer to
     * itself.
     */
    async spendOtherwise(
      payer: Payer,
      { token, value, nonce }: { token: Hex; value: bigint; nonce: bigint },
      sending: Sending = {},
    ): Promise<Hex> {
      const permit = { permitted: { token, amount: value }, nonce, deadline: inTenMinutes() };
      const signature = await signTyped(payer, {
        domain: domainOn(client.chain.id),
        types: TRANSFER_TYPES,
        primaryType: "PermitTransferFrom",
        message: { ...permit, spender: thirdParty.address },
      });
      const args = [permit, { to: payer.address, requestedAmount: value }, payer.address, signature] as const;
      const data = encodeFunctionData({ abi: permit2Abi, functionName: "permitTransferFrom", args });
      return send({ to: ADDRESSES.permit2, data }, sending);
    },
  };
}
