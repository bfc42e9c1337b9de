import { encodeAbiParameters, encodeFunctionData, parseAbiParameters, serializeErc6492Signature } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { DevAccount, Hex } from "../../services/dev/chain/chain.ts";
import { walletAbi } from "../../services/dev/chain/contracts/wallet.ts";
import { walletFactoryAbi } from "../../services/dev/chain/contracts/wallet-factory.ts";
import type { Call, DevnetChain } from "./devnet.ts";
import { type Payer, randomNonce } from "./sign-payment.ts";

/** A payer that is a contract, or will be one. `privateKey` is its owner's. */
export type WalletPayer = Payer & {
  readonly wrap: (signature: Hex) => Promise<Hex>;
  readonly owner: DevAccount;
  /** What its factory is asked to deploy it. */
  readonly deployment: Call;
};

type WalletChoice = {
  tokens?: bigint;
  /** Else its factory is yet to deploy it, and its signatures are as ERC-6492 says until it does. */
  deployed?: boolean;
  /** How it signs: by its owner's signature, or by a wrapped one as wallets with several owners do. */
  form?: "bare" | "wrapped";
  factory?: Hex;
};

/** A new wallet with this many tokens. */
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

/** The signature of a wallet, and how to deploy it. */
export function asErc6492({ to: address, data }: Call, signature: Hex): Hex {
  return serializeErc6492Signature({ address, data, signature });
}

/** In the order of Wallet.sol, which says what each is. */
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

/** Those that are none of a wallet that has signed. */
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

/** The owner has the wallet answer in this way from now on. */
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

/** The owner gives the wallet to somebody else. */
export async function setOwner(
  { chain }: { chain: DevnetChain },
  { address: to, owner }: WalletPayer,
  next: Hex,
): Promise<void> {
  const data = encodeFunctionData({ abi: walletAbi, functionName: "setOwner", args: [next] });
  await chain.sendFrom(owner, { to, data });
}
