import { encodeFunctionData, maxUint256, parseGwei } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { ADDRESSES, CHAIN_ID, type Hex } from "../../services/dev/chain/chain.ts";
import { tokenAbi } from "../../services/dev/chain/contracts/token.ts";
import { inTenMinutes, type Payer, signTyped } from "./sign-payment.ts";

const PERMIT_TYPES = {
  Permit: [
    { name: "owner", type: "address" },
    { name: "spender", type: "address" },
    { name: "value", type: "uint256" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
  ],
} as const;

export type PermitChoice = {
  payer: Payer;
  amount: bigint;
  /** Default: the payer. */
  signer?: Payer;
  spender?: Hex;
  nonce?: bigint;
  deadline?: bigint;
  chainId?: number;
};

/** Makes the `info` of `eip2612GasSponsoring` for the devnet's USDC, and signs the chosen values, valid or not. */
export async function signPermitInfo(choice: PermitChoice) {
  const { payer, amount, signer = payer, spender = ADDRESSES.permit2 } = choice;
  const { nonce = 0n, deadline = inTenMinutes(), chainId = CHAIN_ID } = choice;
  const signature = await signTyped(signer, {
    domain: { name: "USDC", version: "2", chainId, verifyingContract: ADDRESSES.token },
    types: PERMIT_TYPES,
    primaryType: "Permit",
    message: { owner: payer.address, spender, value: amount, nonce, deadline },
  });
  return {
    from: payer.address,
    asset: ADDRESSES.token as Hex,
    spender: ADDRESSES.permit2 as Hex,
    amount: String(amount),
    nonce: String(nonce),
    deadline: String(deadline),
    signature,
    version: "1",
  };
}

export type ApprovalChoice = {
  payer: Payer;
  token: Hex;
  amount?: bigint;
  /** Default: the payer. */
  signer?: Payer;
  spender?: Hex;
  to?: Hex;
  functionName?: "approve" | "transfer";
  value?: bigint;
  nonce?: number;
  gas?: bigint;
  maxFeePerGas?: bigint;
  chainId?: number;
  type?: "eip1559" | "legacy";
  accessList?: { address: Hex; storageKeys: Hex[] }[];
};

/** Makes the `info` of `erc20ApprovalGasSponsoring`, and signs the chosen values, valid or not. */
export async function signApprovalInfo(choice: ApprovalChoice) {
  const { payer, token, amount = maxUint256, signer = payer, to = token } = choice;
  const { spender = ADDRESSES.permit2, functionName = "approve", type = "eip1559" } = choice;
  const { value = 0n, nonce = 0, gas = 70_000n, chainId = CHAIN_ID } = choice;
  const { maxFeePerGas = parseGwei("2"), accessList } = choice;
  const data = encodeFunctionData({ abi: tokenAbi, functionName, args: [spender, amount] });
  const common = { to, data, value, nonce, gas, chainId };
  const account = privateKeyToAccount(signer.privateKey);
  const signedTransaction = await (type === "legacy"
    ? account.signTransaction({ ...common, type, gasPrice: maxFeePerGas })
    : account.signTransaction({
        ...{ ...common, type, maxFeePerGas, maxPriorityFeePerGas: maxFeePerGas / 2n },
        ...(accessList && { accessList }),
      }));
  return {
    from: payer.address,
    asset: token,
    spender: ADDRESSES.permit2 as Hex,
    amount: String(amount),
    signedTransaction,
    version: "1",
  };
}
