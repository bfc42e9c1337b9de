import { encodeFunctionData, multicall3Abi, numberToHex, parseErc6492Signature } from "viem";
import { z } from "zod";
import { ADDRESSES, type Hex } from "./chain.ts";
import { exactPermit2ProxyAbi } from "./contracts/exact-permit2-proxy.ts";
import { tokenAbi } from "./contracts/token.ts";

const hex = z.custom<Hex>((value) => typeof value === "string" && /^0x[0-9a-fA-F]*$/.test(value));
const uint = z
  .string()
  .regex(/^[0-9]{1,78}$/)
  .transform((digits) => BigInt(digits))
  .refine((number) => number < 2n ** 256n);

const Eip3009 = z.object({
  signature: hex,
  authorization: z.object({
    from: hex,
    to: hex,
    value: uint,
    validAfter: uint,
    validBefore: uint,
    nonce: hex,
  }),
});

const Permit2 = z.object({
  signature: hex,
  permit2Authorization: z.object({
    from: hex,
    permitted: z.object({ token: hex, amount: uint }),
    nonce: uint,
    deadline: uint,
    witness: z.object({ to: hex, validAfter: uint }),
  }),
});

const Request = z.object({
  paymentPayload: z.object({ x402Version: z.number(), payload: z.union([Eip3009, Permit2]) }),
  paymentRequirements: z.object({ asset: hex }),
});

export type Payment = {
  from: Hex;
  nonce: Hex;
  signature: Hex;
  /**
   * Returns the contract call that moves the money. Throws if the call cannot be encoded, for example because an
   * address is invalid.
   */
  call(): Call;
};

type Call = { to: Hex; data: Hex };

/**
 * Reads the payment in a facilitator's request to verify or settle, in either version of the protocol. Throws if the
 * request has no payment.
 */
export function paymentOf(request: unknown): Payment {
  return paymentIn(Request.parse(request));
}

/**
 * Returns the payer and the nonce of the payment in a request, in lower-case hex, and the version of the protocol. All
 * three are undefined if the request has no payment.
 */
export function describeRequest(request: unknown) {
  const read = Request.safeParse(request);
  if (!read.success) return { payer: undefined, nonce: undefined, x402Version: undefined };
  const { from, nonce } = paymentIn(read.data);
  const { x402Version } = read.data.paymentPayload;
  return { payer: from.toLowerCase(), nonce: nonce.toLowerCase(), x402Version };
}

function paymentIn({ paymentPayload: { payload }, paymentRequirements }: z.output<typeof Request>): Payment {
  return "authorization" in payload ? readEip3009(payload, paymentRequirements.asset) : readPermit2(payload);
}

function readEip3009({ authorization, signature }: z.output<typeof Eip3009>, token: Hex): Payment {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const call = (): Call => {
    const wallet = parseErc6492Signature(signature);
    const data = encodeFunctionData({
      abi: tokenAbi,
      functionName: "transferWithAuthorization",
      args: [from, to, value, validAfter, validBefore, nonce, wallet.signature],
    });
    const transfer = { to: token, data };
    return wallet.address === undefined
      ? transfer
      : joinCalls({ to: wallet.address, data: wallet.data }, transfer);
  };
  return { from, nonce, signature, call };
}

function readPermit2({ permit2Authorization, signature }: z.output<typeof Permit2>): Payment {
  const { from, permitted, nonce, deadline, witness } = permit2Authorization;
  const call = (): Call => {
    const own = parseErc6492Signature(signature).signature;
    const args = [{ permitted, nonce, deadline }, from, witness, own] as const;
    const data = encodeFunctionData({ abi: exactPermit2ProxyAbi, functionName: "settle", args });
    return { to: ADDRESSES.exactPermit2Proxy, data };
  };
  return { from, nonce: numberToHex(nonce, { size: 32 }), signature, call };
}

/**
 * Joins calls into one call of Multicall3. A payer may sign for a wallet that is not deployed yet (ERC-6492). Its
 * deployment and its payment must then be in one transaction.
 */
function joinCalls(...calls: readonly Call[]): Call {
  const args = [calls.map(({ to, data }) => ({ target: to, allowFailure: false, callData: data }))] as const;
  const data = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args });
  return { to: ADDRESSES.multicall3, data };
}
