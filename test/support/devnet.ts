import {
  encodeFunctionData,
  formatLog,
  pad,
  parseErc6492Signature,
  parseEther,
  parseEventLogs,
  parseGwei,
  toHex,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { z } from "zod";
import {
  ADDRESSES,
  connectChain,
  createSerialQueue,
  type DevAccount,
  devnetAccounts,
  type Hex,
  makeOdd,
  Oddities,
} from "../../services/dev/chain/chain.ts";
import { registryAbi } from "../../services/dev/chain/contracts/caller-registry.ts";
import { oddTokenAbi } from "../../services/dev/chain/contracts/odd-token.ts";
import { tokenAbi } from "../../services/dev/chain/contracts/token.ts";
import { walletAbi } from "../../services/dev/chain/contracts/wallet.ts";
import { type DevnetOptions, startDevnet } from "../../services/dev/chain/devnet.ts";
import type { Received } from "../../services/dev/chain/facilitator-server.ts";
import type { FaultOrder } from "../../services/dev/chain/faults.ts";
import type { NodeFaults } from "../../services/dev/chain/node.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { routeOfPayer } from "../../shared/payments/payment.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import type { Partitions } from "../../shared/redis/partition.ts";
import { nonceIn, permit2On } from "./permit2.ts";
import { type Payer, type SignedAuthorization, signCancellation } from "./sign-payment.ts";

export type TestDevnet = Devnet & {
  control: DevnetControl;
  chain: DevnetChain;
  stop(): Promise<void>;
};

/** Starts a devnet in this process. */
export async function startTestDevnet(options: Partial<DevnetOptions> = {}): Promise<TestDevnet> {
  const devnet = await startDevnet({ env: process.env, log: silentLogger, ...options });
  return { ...devnet, ...connectDevnet(devnet) };
}

/** Connects to a devnet that runs elsewhere. `devnet` has the fields of its `service.started`. */
export function connectDevnet(devnet: Devnet): { control: DevnetControl; chain: DevnetChain } {
  const control = connectControl(devnet.controlUrl);
  return { control, chain: connectDevnetChain(devnet, control) };
}

export type DevnetControl = ReturnType<typeof connectControl>;

/** Creates a typed client of a devnet's control port. */
export function connectControl(controlUrl: string) {
  const ask = async (method: string, path: string, body?: object): Promise<Response> => {
    const answer = await fetch(`${controlUrl}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  return {
    async fault(order: FaultOrder): Promise<void> {
      await ask("POST", "/faults", order);
    },
    async clearFaults(): Promise<void> {
      await ask("DELETE", "/faults");
    },
    async requests(): Promise<Received> {
      return (await ask("GET", "/requests")).json() as Promise<Received>;
    },
    async clearRequests(): Promise<void> {
      await ask("DELETE", "/requests");
    },
    /** Changes the behaviour of the token from now on. */
    async makeOdd(oddities: z.input<typeof Oddities>): Promise<void> {
      await ask("PUT", "/token", oddities);
    },
    /** Gives the node at `nodeUrl` these faults from now on. */
    async setNodeFaults(faults: z.input<typeof NodeFaults>): Promise<void> {
      await ask("PUT", "/node", faults);
    },
    /** Stops making blocks, except by `chain.mine`. Transactions wait. */
    async pauseMining(): Promise<void> {
      await ask("PUT", "/mining", { running: false });
    },
    async resumeMining(): Promise<void> {
      await ask("PUT", "/mining", { running: true });
    },
  };
}

/** A transfer of the token, with the nonce of its authorization, if there was one. Addresses are lower-case. */
export type TokenTransfer = {
  from: string;
  to: string;
  value: bigint;
  nonce: string | undefined;
  /** The contract that uses up the nonce: the token or Permit2. */
  taker: Hex;
  transaction: Hex;
  blockNumber: bigint;
};

/** With `pending`, the call does not wait for a block, because none comes while mining is paused. */
export type Sending = { pending?: boolean };

export type Call = { readonly to: Hex; readonly data: Hex };

export type DevnetChain = ReturnType<typeof connectDevnetChain>;

/** Creates functions that read and change the chain of a devnet from outside. */
export function connectDevnetChain(devnet: Devnet, control: DevnetControl) {
  const { token } = devnet;
  const { thirdParty } = devnetAccounts();
  const client = connectChain(devnet.rpcUrl, thirdParty);
  const mined = (hash: Hex) => client.waitForTransactionReceipt({ hash });
  const runSerially = createSerialQueue();
  const contract = { address: token, abi: tokenAbi };
  /** Resolves with the transaction once it is in a block; with `pending`, once it is in the pool. Throws if it reverts. */
  const sendFirst = async (send: () => Promise<Hex>, { pending = false }: Sending): Promise<Hex> => {
    const hash = await runSerially(send);
    if (!pending && (await mined(hash)).status === "reverted") throw new Error(`${hash} reverted`);
    return hash;
  };
  /** Has a third party send a call, first in its block. */
  const send = ({ to, data }: Call, sending: Sending = {}): Promise<Hex> =>
    sendFirst(() => client.sendTransaction({ to, data, ...FIRST_IN_ITS_BLOCK }), sending);

  /** Sends a call with this key, which first gets the ether for it. */
  async function sendFrom(key: DevAccount, { to, data }: Call, sending: Sending = {}): Promise<Hex> {
    const own = connectChain(devnet.rpcUrl, key);
    await client.setBalance({ address: own.account.address, value: parseEther("10") });
    return sendFirst(() => own.sendTransaction({ to, data, ...FIRST_IN_ITS_BLOCK }), sending);
  }

  /** Sends a call as this payer. If the payer is a wallet, its owner has it execute the call. */
  function sendAs(payer: Payer, call: Call, sending: Sending = {}): Promise<Hex> {
    if (payer.wrap === undefined) return sendFrom(payer, call, sending);
    const args = [call.to, call.data] as const;
    const data = encodeFunctionData({ abi: walletAbi, functionName: "execute", args });
    return sendFrom(payer, { to: payer.address, data }, sending);
  }

  /** Returns the nonce of the permit that a transaction settles, as a word. */
  async function permitIn(hash: Hex): Promise<Hex | undefined> {
    const { to, input } = await client.getTransaction({ hash });
    const nonce = nonceIn({ to, data: input });
    return nonce === undefined ? undefined : toHex(nonce, { size: 32 });
  }

  /**
   * Returns the token's events. `payers` limits them, because decoding the events of all earlier tests would take long.
   */
  async function logsOf(address: Hex | Hex[], payers?: readonly string[]) {
    const topics = payers && [null, payers.map((payer) => pad(payer as Hex))];
    const filter = { address, fromBlock: "0x0", toBlock: "latest", ...(topics && { topics }) } as const;
    const raw = await client.request({ method: "eth_getLogs", params: [filter] });
    return parseEventLogs({ abi: tokenAbi, logs: raw.map((log) => formatLog(log)) });
  }

  /**
   * Returns all transfers of these tokens to this address, oldest first, from the logs of the whole chain. `payers`
   * limits the senders.
   */
  async function transfers(
    to: Hex,
    asset: Hex | Hex[] = token,
    payers?: readonly string[],
  ): Promise<TokenTransfer[]> {
    const logs = await logsOf(asset, payers);
    const transfers: TokenTransfer[] = [];
    for (const log of logs) {
      if (log.eventName !== "Transfer" || log.args.to.toLowerCase() !== to.toLowerCase()) continue;
      // This works because no test has two transfers by authorization in one transaction.
      const used = logs.find(
        (each) => each.eventName === "AuthorizationUsed" && each.transactionHash === log.transactionHash,
      );
      const permit = used === undefined ? await permitIn(log.transactionHash) : undefined;
      transfers.push({
        from: log.args.from.toLowerCase(),
        to: log.args.to.toLowerCase(),
        value: log.args.value,
        nonce: used?.eventName === "AuthorizationUsed" ? used.args.nonce : permit,
        taker: permit === undefined ? log.address : ADDRESSES.permit2,
        transaction: log.transactionHash,
        blockNumber: log.blockNumber,
      });
    }
    return transfers;
  }

  return {
    /** viem's test client, for everything else. It sends as a third party. */
    client,

    ...{ send, sendFrom, sendAs },

    permit2: permit2On({ client, send, sendAs, thirdParty }),

    balanceOf: (owner: Hex, asset = token): Promise<bigint> =>
      client.readContract({ ...contract, address: asset, functionName: "balanceOf", args: [owner] }),

    authorizationState: (payer: Hex, nonce: Hex): Promise<boolean> =>
      client.readContract({ ...contract, functionName: "authorizationState", args: [payer, nonce] }),

    transfers,

    /** Returns the payer's transfers to the seller, oldest first. */
    async chargesOf(payer: Hex, asset = token): Promise<TokenTransfer[]> {
      return transfers(devnet.seller, asset, [payer]);
    },

    async mine(blocks = 1): Promise<void> {
      await client.mine({ blocks });
    },

    /** Mines until all current blocks are final. */
    async finalize(): Promise<void> {
      const head = await client.getBlockNumber();
      while ((await client.getBlock({ blockTag: "finalized" })).number < head)
        await client.mine({ blocks: 1 });
    },

    /** Returns the newest block's timestamp, unix seconds. */
    now: async (): Promise<bigint> => (await client.getBlock()).timestamp,

    /**
     * Advances the block time, and mines a block so that it shows. Wall clocks, including the facilitator's, do not
     * change.
     */
    async increaseTime(seconds: number): Promise<void> {
      await client.increaseTime({ seconds });
      await client.mine({ blocks: 1 });
    },

    setNextBlockTimestamp: (timestamp: bigint): Promise<void> => client.setNextBlockTimestamp({ timestamp }),

    snapshot: (): Promise<Hex> => client.snapshot(),
    /**
     * Makes a reorganisation: the chain forgets everything since the snapshot. A snapshot can be used once. The block time
     * is that of the wall clock again; anvil itself would continue from the time of the snapshot's last block.
     */
    async revert(id: Hex): Promise<void> {
      await client.revert({ id });
      const seconds = Math.floor(Date.now() / 1000);
      await client.request({ method: "evm_setTime" as never, params: [seconds] as never });
    },

    pauseMining: control.pauseMining,
    resumeMining: control.resumeMining,

    async mint(to: Hex, value: bigint, asset = token): Promise<void> {
      const mint = { abi: tokenAbi, address: asset, functionName: "mint", args: [to, value] } as const;
      await mined(await runSerially(() => client.writeContract(mint)));
    },

    /**
     * Sets the owner's balance in the newest block's state. A transaction, such as a `mint`, would take three times
     * as long.
     */
    async deal(owner: Hex, value: bigint): Promise<void> {
      const params = [owner, token, toHex(value)];
      await client.request({ method: "anvil_dealERC20" as never, params: params as never });
    },

    /** Puts another token with this behaviour at an address. */
    oddToken: (asset: Hex, oddities: z.input<typeof Oddities>): Promise<void> =>
      runSerially(() => makeOdd(client, asset, Oddities.parse(oddities))),

    /** Adds an account to the token's list of blocked accounts, which neither send nor receive it. */
    async blacklist(account: Hex): Promise<void> {
      const args = [account, true] as const;
      const call = { abi: oddTokenAbi, address: token, functionName: "blacklist", args } as const;
      await mined(await runSerially(() => client.writeContract(call)));
    },

    /** Cancels the authorization in the payer's name. */
    async cancelAuthorization(payer: Payer, nonce: Hex, sending: Sending = {}): Promise<Hex> {
      const args = [payer.address, nonce, await signCancellation(payer, nonce, devnet)] as const;
      const data = encodeFunctionData({ abi: tokenAbi, functionName: "cancelAuthorization", args });
      return send({ to: token, data }, sending);
    },

    /**
     * Has a third party send the authorization. Anyone who has seen it may do so. A wallet that does not exist yet is
     * deployed first.
     */
    async frontRun({ authorization, signature }: SignedAuthorization, sending: Sending = {}): Promise<Hex> {
      const { from, to, value, validAfter, validBefore, nonce } = authorization;
      const deployed = parseErc6492Signature(signature);
      if (deployed.address !== undefined) await send({ to: deployed.address, data: deployed.data }, sending);
      const amounts = [BigInt(value), BigInt(validAfter), BigInt(validBefore)] as const;
      const args = [from, to, ...amounts, nonce, deployed.signature] as const;
      const data = encodeFunctionData({ abi: tokenAbi, functionName: "transferWithAuthorization", args });
      return send({ to: token, data }, sending);
    },

    /** Sets in the registry whether this caller may call this service. */
    async permitCaller(serviceId: bigint, caller: Hex, allowed = true): Promise<void> {
      const call = { address: devnet.callerRegistry, abi: registryAbi } as const;
      const args = [serviceId, caller, allowed] as const;
      await mined(await runSerially(() => client.writeContract({ ...call, functionName: "permit", args })));
    },
  };
}

/** Creates a payer with this many tokens, so that tests do not share balances. */
export async function newPayer(devnet: { chain: DevnetChain }, tokens = 1_000_000_000n): Promise<DevAccount> {
  const privateKey = generatePrivateKey();
  const { address } = privateKeyToAccount(privateKey);
  if (tokens > 0n) await devnet.chain.deal(address, tokens);
  return { address, privateKey };
}

/** Creates a payer with money for each partition. */
export async function payersIn(
  partitions: Partitions,
  devnet: { chain: DevnetChain },
): Promise<DevAccount[]> {
  const found: DevAccount[] = [];
  while (found.filter(Boolean).length < partitions.all.length) {
    const payer = await newPayer(devnet);
    found[partitions.indexOf(routeOfPayer(payer.address))] = payer;
  }
  return found;
}

/**
 * A high tip puts a transaction first in its block. The gas is fixed, because anvil would estimate it after the waiting
 * transactions. One of them is the transaction that must come second, and it would make the estimate fail.
 */
const FIRST_IN_ITS_BLOCK = {
  maxPriorityFeePerGas: parseGwei("50"),
  maxFeePerGas: parseGwei("100"),
  gas: 2_000_000n,
} as const;
