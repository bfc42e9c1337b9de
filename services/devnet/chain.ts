import {
  type Client,
  createTestClient,
  defineChain,
  type HttpTransport,
  http,
  type PublicActions,
  publicActions,
  type TestActions,
  type Chain as ViemChain,
  type WalletActions,
  walletActions,
} from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import type { Cast, DevAccount, Hex } from "./accounts.ts";
import { registryCode } from "./contracts/caller-registry.ts";
import { multicall3Code } from "./contracts/multicall3.ts";
import { tokenAbi, tokenCode } from "./contracts/token.ts";

export const CHAIN_ID = 84_532;

/** Where things are. The token is where Base Sepolia has its USDC, so that unmodified clients accept it. */
export const ADDRESSES = {
  token: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  multicall3: "0xcA11bde05977b3631167028862bE2a173976CA11",
  callerRegistry: "0x000000000000000000000000000000000ca11e75",
} as const satisfies Record<string, Hex>;

/** Without a short interval, viem waits seconds for a receipt that is there at once. */
const POLLING_MS = 50;
const ONE_MILLION_TOKENS = 1_000_000_000_000n;

/** A client of the devnet's chain that reads, sends as one account, and has anvil's powers over the chain. */
export type Chain = Client<
  HttpTransport,
  ViemChain,
  PrivateKeyAccount,
  undefined,
  TestActions &
    PublicActions<HttpTransport, ViemChain, PrivateKeyAccount> &
    WalletActions<ViemChain, PrivateKeyAccount>
>;

export function connectChain(rpcUrl: string, account: DevAccount): Chain {
  const chain = defineChain({
    id: CHAIN_ID,
    name: "devnet",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [rpcUrl] } },
  });
  return createTestClient({
    mode: "anvil",
    account: privateKeyToAccount(account.privateKey),
    chain,
    transport: http(rpcUrl, { retryCount: 0 }),
    pollingInterval: POLLING_MS,
    cacheTime: 0,
  })
    .extend(publicActions)
    .extend(walletActions);
}

/** Puts the contracts at their addresses and gives each payer a million tokens. */
export async function furnish(chain: Chain, { payers }: Cast): Promise<void> {
  await chain.setCode({ address: ADDRESSES.token, bytecode: tokenCode });
  await chain.setCode({ address: ADDRESSES.multicall3, bytecode: multicall3Code });
  await chain.setCode({ address: ADDRESSES.callerRegistry, bytecode: registryCode });
  for (const { address } of payers) {
    const hash = await chain.writeContract({
      address: ADDRESSES.token,
      abi: tokenAbi,
      functionName: "mint",
      args: [address, ONE_MILLION_TOKENS],
    });
    await chain.waitForTransactionReceipt({ hash });
  }
}
