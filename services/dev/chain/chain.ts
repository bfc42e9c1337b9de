import {
  type Client,
  createTestClient,
  defineChain,
  encodeFunctionData,
  type HttpTransport,
  http,
  multicall3Abi,
  type PublicActions,
  publicActions,
  type TestActions,
  type TransactionReceipt,
  TransactionReceiptNotFoundError,
  type Chain as ViemChain,
  WaitForTransactionReceiptTimeoutError,
  type WalletActions,
  walletActions,
} from "viem";
import { mnemonicToAccount, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { z } from "zod";
import { toHex } from "../../../shared/chain/encoding.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { registryCode } from "./contracts/caller-registry.ts";
import { daiCode } from "./contracts/dai.ts";
import { exactPermit2ProxyCode } from "./contracts/exact-permit2-proxy.ts";
import { multicall3Code } from "./contracts/multicall3.ts";
import { oddTokenAbi, oddTokenCode } from "./contracts/odd-token.ts";
import { permit2Code } from "./contracts/permit2.ts";
import { tokenAbi, tokenCode } from "./contracts/token.ts";
import { usdtCode } from "./contracts/usdt.ts";
import { walletFactoryCode } from "./contracts/wallet-factory.ts";

export const CHAIN_ID = 84_532;

/**
 * Addresses of the contracts. The token has the address of USDC on Base Sepolia, whose chain id the devnet has.
 * Multicall3, Permit2 and the x402 proxy of Permit2 have the same addresses here as on public chains. Clients and
 * facilitators have these addresses built in, and therefore work with the devnet unchanged.
 */
export const ADDRESSES = {
  token: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  multicall3: "0xcA11bde05977b3631167028862bE2a173976CA11",
  callerRegistry: "0x000000000000000000000000000000000ca11e75",
  permit2: "0x000000000022D473030F116dDEE9F6B43aC78BA3",
  exactPermit2Proxy: "0x402085c248EeA27D92E8b30b2C58ed07f9E20001",
  usdt: "0x0000000000000000000000000000000005d705D7",
  dai: "0x000000000000000000000000000000000Da10da1",
  walletFactory: "0x000000000000000000000000000000000FAc7047",
} as const satisfies Record<string, Hex>;

const CODES: Readonly<Record<keyof typeof ADDRESSES, Hex>> = {
  token: tokenCode,
  multicall3: multicall3Code,
  callerRegistry: registryCode,
  permit2: permit2Code,
  exactPermit2Proxy: exactPermit2ProxyCode,
  usdt: usdtCode,
  dai: daiCode,
  walletFactory: walletFactoryCode,
};

/** Interval at which viem polls the node. Its default is several seconds, which would slow tests. */
const POLLING_MS = 50;
const RECEIPT_MS_MAX = 180_000;
const ONE_MILLION_TOKENS = 1_000_000_000_000n;
const TOKENS_PER_PAYER: readonly [token: Hex, amount: bigint][] = [
  [ADDRESSES.token, ONE_MILLION_TOKENS],
  [ADDRESSES.usdt, ONE_MILLION_TOKENS],
  [ADDRESSES.dai, ONE_MILLION_TOKENS * 10n ** 12n],
];

/** Client of the devnet's chain. It reads, sends transactions from one account, and can call anvil's own methods. */
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
    .extend(walletActions)
    .extend((client) => ({ waitForTransactionReceipt: createWaitForReceipt(client) }));
}

/**
 * Polls for the receipt until it exists. viem's own function polls once for each block, but anvil may show a block
 * before it has the receipt. Without another block, viem would then wait for ever.
 */
function createWaitForReceipt({ getTransactionReceipt }: Pick<PublicActions, "getTransactionReceipt">) {
  return async function waitForTransactionReceipt({
    hash,
    timeout = RECEIPT_MS_MAX,
  }: {
    hash: Hex;
    timeout?: number;
  }): Promise<TransactionReceipt> {
    const until = performance.now() + timeout;
    while (performance.now() < until) {
      const receipt = await getTransactionReceipt({ hash }).catch(unlessNotFound);
      if (receipt !== undefined) return receipt;
      await delay(POLLING_MS);
    }
    throw new WaitForTransactionReceiptTimeoutError({ hash });
  };
}

function unlessNotFound(error: unknown): undefined {
  if (!(error instanceof TransactionReceiptNotFoundError)) throw error;
}

/**
 * Puts the contracts at their addresses, and gives each payer a million of each token. It sets the code of each address
 * with a method of anvil, because a normal deployment could not choose the address.
 */
export async function deployContracts(chain: Chain, { payers }: Accounts): Promise<void> {
  const names = Object.keys(ADDRESSES) as (keyof typeof ADDRESSES)[];
  await Promise.all(names.map((name) => chain.setCode({ address: ADDRESSES[name], bytecode: CODES[name] })));
  for (const { address } of payers) {
    const mints = TOKENS_PER_PAYER.map(([target, amount]) => ({
      target,
      allowFailure: false,
      callData: encodeFunctionData({ abi: tokenAbi, functionName: "mint", args: [address, amount] }),
    }));
    const hash = await chain.writeContract({
      address: ADDRESSES.multicall3,
      abi: multicall3Abi,
      functionName: "aggregate3",
      args: [mints],
    });
    await chain.waitForTransactionReceipt({ hash });
  }
}

/** Settings of the token OddToken.sol, by which its behaviour differs from that of USDC. By default it does not differ. */
export const Oddities = z.strictObject({
  /** Whether `Transfer` comes before `AuthorizationUsed`. */
  transferFirst: z.boolean().default(false),
  /** Whether another event comes between `AuthorizationUsed` and `Transfer`. */
  eventBetween: z.boolean().default(false),
  /** Whether a transfer with a used nonce succeeds without moving money, instead of reverting. */
  silentIfUsed: z.boolean().default(false),
  /** Share of each transfer that goes to another account, in hundredths of a percent. */
  feeBps: z.number().int().min(0).max(10_000).default(0),
  /** Whether the share of `feeBps` is moved after the rest of the transfer, not before. */
  feeLast: z.boolean().default(false),
  /** Decimals of the token. 0 means 6, as for the devnet's token. */
  decimals: z.number().int().min(0).max(255).default(0),
  /** Version that payers sign in the token's EIP-712 domain. If empty, it is 2, as for the devnet's token. */
  version: z.string().default(""),
});
export type Oddities = z.output<typeof Oddities>;

/** Replaces the code of the token at this address, so that it behaves as `oddities` describe. All balances stay. */
export async function makeOdd(chain: Chain, address: Hex, oddities: Oddities): Promise<void> {
  await chain.setCode({ address, bytecode: oddTokenCode });
  const hash = await chain.writeContract({
    address,
    abi: oddTokenAbi,
    functionName: "behave",
    args: [oddities],
  });
  await chain.waitForTransactionReceipt({ hash });
}

export type Hex = `0x${string}`;

export type DevAccount = { readonly address: Hex; readonly privateKey: Hex };

/** The public phrase from which anvil derives its accounts. Each of them holds 10,000 worthless ether. */
const MNEMONIC = "test test test test test test test test test test test junk";

/*
 * Indexes of the accounts that are derived from the phrase. Anvil gives ether to the first ten (0 to 9). Account 0 is
 * left to tests and examples, which sign with it. The last payer has no ether, and needs none, because the facilitator
 * sends its payments.
 */
const FACILITATOR = 1;
const THIRD_PARTY = 2;
const SELLER = 3;
const PAYERS = [4, 5, 6, 7, 8, 9, 10];

type Accounts = {
  facilitator: DevAccount;
  /** Account that sets up the chain. It also sends payments that others have signed, in place of the facilitator. */
  thirdParty: DevAccount;
  seller: Hex;
  payers: readonly DevAccount[];
};

export function devnetAccounts(): Accounts {
  const parent = mnemonicToAccount(MNEMONIC, { path: "m/44'/60'/0'/0" }).getHdKey();
  const accountAt = (index: number): DevAccount => {
    const key = parent.deriveChild(index).privateKey;
    if (key === null) throw new Error(`anvil's account ${index} has no private key`);
    const privateKey = toHex(key);
    return { address: privateKeyToAccount(privateKey).address, privateKey };
  };
  return {
    facilitator: accountAt(FACILITATOR),
    thirdParty: accountAt(THIRD_PARTY),
    seller: accountAt(SELLER).address,
    payers: PAYERS.map(accountAt),
  };
}

/**
 * Creates a queue that runs pieces of work one after the other, in the order of the calls. All transactions of one
 * account pass through such a queue, so that each one has the nonce that the chain expects. The nonce manager of viem is
 * not used, because it counts nonces itself. After a refused transaction or a reset of the chain, its count is wrong, and
 * the chain would not accept any later transaction.
 */
export function createSerialQueue() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  };
}

/**
 * Controls when the chain makes blocks. While it runs, each transaction gets a block at once. Empty blocks follow at
 * intervals, because a block becomes final only after further blocks.
 */
export type Mining = {
  readonly running: boolean;
  /** Stops making blocks, so that new transactions wait in the pool. A call of the RPC method `evm_mine` still makes one. */
  pause(): Promise<void>;
  /** Mines the waiting transactions, and makes blocks again. */
  resume(): Promise<void>;
  stop(): void;
};

/**
 * Starts to make an empty block every `blockTimeMs`, besides a block for each transaction. With 0, it makes no empty
 * blocks. Anvil has such a mode too (mixed mining), but cannot return to it over RPC after a pause. So the timer is in
 * this process.
 */
export function startMining(chain: Chain, blockTimeMs: number, log: Logger): Mining {
  const ended = new AbortController();
  let running = true;
  let ticking: Promise<void> = Promise.resolve();
  const tick = async (): Promise<void> => {
    try {
      if (running) await chain.mine({ blocks: 1 });
    } catch (error) {
      if (!ended.signal.aborted) log.warn("devnet.block_failed", { reason: messageOf(error) });
    }
  };
  const keepTicking = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await delay(blockTimeMs, ended.signal).catch(() => {});
      ticking = ended.signal.aborted ? Promise.resolve() : tick();
      await ticking;
    }
  };
  if (blockTimeMs > 0) void keepTicking();
  return {
    get running() {
      return running;
    },
    async pause() {
      running = false;
      await ticking;
      await chain.setAutomine(false);
    },
    async resume() {
      await chain.setAutomine(true);
      await chain.mine({ blocks: 1 });
      running = true;
    },
    stop: () => ended.abort(),
  };
}
