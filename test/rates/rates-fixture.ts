import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createTestClient, type Hex, http, publicActions, walletActions } from "viem";
import { mnemonicToAccount } from "viem/accounts";
import { startAnvil } from "../../services/devnet/anvil.ts";
import { type Compiled, compileSolidity } from "../support/compile-solidity.ts";

const account = mnemonicToAccount("test test test test test test test test test test test junk");

type Contracts = Record<"Aggregator" | "Pool" | "PoolToken", Compiled>;

export type Round = {
  roundId?: bigint;
  answer?: bigint;
  startedAt?: bigint;
  updatedAt?: bigint;
  answeredInRound?: bigint;
};

export type RatesFixture = Awaited<ReturnType<typeof startRatesFixture>>;

/** A real chain with feeds and pools on it, behind an RPC proxy that counts, fails and is slow on command. */
export async function startRatesFixture() {
  const files = ["Feeds.sol", "Pool.sol"];
  const contracts = compileSolidity(new URL("contracts/", import.meta.url), files) as Contracts;
  const anvil = await startAnvil({ env: process.env, chainId: 8453, port: undefined });
  const client = createTestClient({ mode: "anvil", transport: http(anvil.rpcUrl), pollingInterval: 20 })
    .extend(publicActions)
    .extend(walletActions);
  const proxy = await startRpcProxy(anvil.rpcUrl);

  async function deploy({ abi, bytecode }: Compiled, args: unknown[]): Promise<Hex> {
    const hash = await client.deployContract({ abi, bytecode, args, account, chain: null });
    const { contractAddress } = await client.waitForTransactionReceipt({ hash });
    if (!contractAddress) throw new Error("not deployed");
    return contractAddress;
  }

  async function send(
    name: keyof typeof contracts,
    address: Hex,
    [functionName, ...args]: [string, ...unknown[]],
  ) {
    const { abi } = contracts[name];
    const hash = await client.writeContract({ abi, address, functionName, args, account, chain: null });
    const { status } = await client.waitForTransactionReceipt({ hash });
    if (status !== "success") throw new Error(`${functionName} failed`);
  }

  async function timestamp(): Promise<bigint> {
    return (await client.getBlock()).timestamp;
  }

  return {
    rpcUrl: anvil.rpcUrl,
    proxy,
    client,
    timestamp,
    feed: (decimals = 8) => deploy(contracts.Aggregator, [decimals]),
    /** A round of now that is sound, but for what is said here. */
    async write(feed: Hex, round: Round = {}): Promise<void> {
      const now = BigInt(Math.floor(Date.now() / 1000));
      const sound = {
        roundId: 7n,
        answer: 3200n * 10n ** 8n,
        startedAt: now,
        updatedAt: now,
        answeredInRound: 7n,
      };
      await send("Aggregator", feed, ["write", { ...sound, ...round }]);
    },
    breakFeed: (feed: Hex, broken = true) => send("Aggregator", feed, ["setBroken", broken]),
    token: (decimals: number) => deploy(contracts.PoolToken, [decimals]),
    pool: (token0: Hex, token1: Hex, tick: number) => deploy(contracts.Pool, [token0, token1, tick]),
    trade: (pool: Hex, tick: number) => send("Pool", pool, ["trade", tick]),
    /** The next block is so much later, and there is one. */
    async pass(seconds: number): Promise<void> {
      await client.increaseTime({ seconds });
      await client.mine({ blocks: 1 });
    },
    async stop(): Promise<void> {
      proxy.server.closeAllConnections();
      proxy.server.close();
      await anvil.stop();
    },
  };
}

type RpcProxy = {
  url: string;
  server: Server;
  /** Calls of contracts since it was set to 0. */
  calls: number;
  /** What was asked, in its order. */
  asked: { method: string; params: unknown[] }[];
  /** What happens to the next requests: nothing, status 500, or silence. */
  answer: "well" | "failing" | "silent";
};

async function startRpcProxy(target: string): Promise<RpcProxy> {
  const proxy = { calls: 0, asked: [] as RpcProxy["asked"], answer: "well" } as RpcProxy;
  proxy.server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    proxy.asked.push(JSON.parse(body));
    if (body.includes("eth_call")) proxy.calls += 1;
    if (proxy.answer === "silent") return;
    if (proxy.answer === "failing") {
      res.writeHead(500).end();
      return;
    }
    const answer = await fetch(target, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    res.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise<void>((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
  proxy.url = `http://127.0.0.1:${(proxy.server.address() as AddressInfo).port}/v2/canary-canary-key`;
  return proxy;
}
