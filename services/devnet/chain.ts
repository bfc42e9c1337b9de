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
import { mnemonicToAccount, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { toHex } from "../../shared/ethereum/hex.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { delay } from "../../shared/time/clock.ts";
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

export type Hex = `0x${string}`;

export type DevAccount = { readonly address: Hex; readonly privateKey: Hex };

/** The phrase from which anvil makes its accounts, known to everybody: each holds 10000 worthless ether. */
const MNEMONIC = "test test test test test test test test test test test junk";

/**
 * Who is who among the phrase's accounts, the first ten of which are anvil's. The very first is left to tests and examples,
 * which sign as it; a payer needs no ether.
 */
const FACILITATOR = 1;
const THIRD_PARTY = 2;
const SELLER = 3;
const PAYERS = [4, 5, 6, 7, 8, 9, 10];

export type Cast = {
  facilitator: DevAccount;
  /** For acting from outside: furnishing the chain, sending somebody else's authorization. */
  thirdParty: DevAccount;
  seller: Hex;
  payers: readonly DevAccount[];
};

export function castOf(): Cast {
  return {
    facilitator: accountAt(FACILITATOR),
    thirdParty: accountAt(THIRD_PARTY),
    seller: accountAt(SELLER).address,
    payers: PAYERS.map(accountAt),
  };
}

function accountAt(addressIndex: number): DevAccount {
  const key = mnemonicToAccount(MNEMONIC, { addressIndex }).getHdKey().privateKey;
  if (key === null) throw new Error(`anvil's account ${addressIndex} has no private key`);
  const privateKey = toHex(key);
  return { address: privateKeyToAccount(privateKey).address, privateKey };
}

/**
 * One after the other, in the order they were asked for. For the transactions of an account, each of which then takes the
 * nonce that the chain expects. A nonce counted here, as by viem's nonce manager, goes wrong in ways that hold up all that
 * is sent later: it leaves a gap where one of several is refused, and is ahead of a chain that was set back.
 */
export function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <Result>(work: () => Promise<Result>): Promise<Result> => {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  };
}

/** How the chain moves on: a block at once for each transaction, and one at intervals, so that what is old becomes final. */
export type Mining = {
  readonly running: boolean;
  /** No block is made but by `evm_mine`; transactions wait in the pool. */
  pause(): Promise<void>;
  /** Mines what waits and goes on. */
  resume(): Promise<void>;
  stop(): void;
};

type Options = {
  chain: Chain;
  /** 0: no blocks but those of transactions. */
  blockTimeMs: number;
  log: Logger;
};

/**
 * The intervals are kept here and not by anvil: its mixed mode, once switched off for a pause, cannot be switched on
 * again over RPC.
 */
export function startMining({ chain, blockTimeMs, log }: Options): Mining {
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
