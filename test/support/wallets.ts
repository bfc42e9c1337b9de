import { encodeAbiParameters, encodeFunctionData, parseAbiParameters, serializeErc6492Signature } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { DevAccount, Hex } from "../../services/dev/chain/chain.ts";
import { walletAbi } from "../../services/dev/chain/contracts/wallet.ts";
import { walletFactoryAbi } from "../../services/dev/chain/contracts/wallet-factory.ts";
import type { Call, DevnetChain } from "./devnet.ts";
import { type Payer, randomNonce } from "./sign-payment.ts";

/** A payer that is a contract or will be one. `privateKey` is its owner's. */
export type WalletPayer = Payer & {
  readonly wrap: (signature: Hex) => Promise<Hex>;
  readonly owner: DevAccount;
  /** The call by which its factory deploys the wallet. */
  readonly deployment: Call;
};

type WalletChoice = {
  tokens?: bigint;
  /**
   * True if the wallet is deployed now. Otherwise its signatures have the form of ERC-6492 until its factory deploys
   * it.
   */
  deployed?: boolean;
  /** Form of the wallet's signatures: plain, or wrapped as in wallets with several owners. */
  form?: "bare" | "wrapped";
  factory?: Hex;
};

/** Creates a wallet with this many tokens. */
export async function newWallet(
  devnet: { chain: DevnetChain; walletFactory: Hex },
  choice: WalletChoice = {},
): Promise<WalletPayer> {
  const {
    tokens = 1_000_000_000n,
    deployed = true,
    form = "wrapped",
    factory = devnet.walletFactory,
  } = choice;
  const { chain } = devnet;
  const privateKey = generatePrivateKey();
  const owner = { address: privateKeyToAccount(privateKey).address, privateKey };
  const args = [owner.address, BigInt(randomNonce())] as const;
  const at = { address: factory, abi: walletFactoryAbi } as const;
  const address = await chain.client.readContract({ ...at, functionName: "addressOf", args });
  const data = encodeFunctionData({ abi: walletFactoryAbi, functionName: "createWallet", args });
  const deployment = { to: factory, data };
  if (deployed) await chain.send(deployment);
  if (tokens > 0n) await chain.deal(address, tokens);
  return {
    ...{ address, privateKey, owner, deployment },
    async wrap(signature) {
      const own = form === "bare" ? signature : wrapAsFirstOwner(signature);
      const code = await chain.client.getCode({ address });
      return code === undefined ? asErc6492(deployment, own) : own;
    },
  };
}

export function wrapAsFirstOwner(signature: Hex): Hex {
  return encodeAbiParameters(parseAbiParameters("uint256 ownerIndex, bytes signature"), [0n, signature]);
}

/** Returns a wallet's signature with the call that deploys the wallet. */
export function asErc6492({ to: address, data }: Call, signature: Hex): Hex {
  return serializeErc6492Signature({ address, data, signature });
}

/** Kinds of answers in the order of Wallet.sol, which describes each. */
const ANSWERS = [
  "Truly",
  "TrulyIfWrapped",
  "Never",
  "Always",
  "Reverts",
  "BurnsGas",
  "Nonsense",
  "DirtyYes",
  "ShortYes",
  "Nothing",
  "LongYes",
  "YesInCallsOnly",
] as const;

/** Kinds of answers that do not mean a valid signature. */
export const NOT_SIGNED = [
  "Never",
  "Reverts",
  "BurnsGas",
  "Nonsense",
  "DirtyYes",
  "ShortYes",
  "LongYes",
  "Nothing",
] as const satisfies readonly (typeof ANSWERS)[number][];

/** Changes how the wallet answers from now on, in its owner's name. */
export async function setAnswers(
  { chain }: { chain: DevnetChain },
  { address: to, owner }: WalletPayer,
  answers: (typeof ANSWERS)[number],
): Promise<void> {
  const args = [ANSWERS.indexOf(answers)] as const;
  await chain.sendFrom(owner, {
    to,
    data: encodeFunctionData({ abi: walletAbi, functionName: "setAnswers", args }),
  });
}

/** Gives the wallet to another owner. */
export async function setOwner(
  { chain }: { chain: DevnetChain },
  { address: to, owner }: WalletPayer,
  next: Hex,
): Promise<void> {
  const data = encodeFunctionData({ abi: walletAbi, functionName: "setOwner", args: [next] });
  await chain.sendFrom(owner, { to, data });
}
