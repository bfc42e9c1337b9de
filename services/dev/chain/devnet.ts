import type { Devnet } from "../../../shared/dev/devnet.ts";
import { listen } from "../../../shared/http/listen.ts";
import { Shutdown } from "../../../shared/platform/lifecycle/run-service.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { startAnvil } from "./anvil.ts";
import {
  ADDRESSES,
  CHAIN_ID,
  connectChain,
  deployContracts,
  devnetAccounts,
  makeOdd,
  startMining,
} from "./chain.ts";
import { createControlHandler } from "./control.ts";
import { createFacilitator } from "./facilitator.ts";
import { Counter, createFacilitatorHandler } from "./facilitator-server.ts";
import { Faults } from "./faults.ts";

type RunningDevnet = Devnet & {
  /** Rejects if the chain ends without being stopped. */
  readonly fatal: Promise<never>;
  stop(): Promise<void>;
};

export type DevnetOptions = {
  env: NodeJS.ProcessEnv;
  log: Logger;
  /** Ports on 127.0.0.1. If a port is absent or 0, a free one is chosen. */
  ports?: { rpc?: number | undefined; facilitator?: number | undefined; control?: number | undefined };
  /** Interval at which empty blocks are made, besides a block for each transaction. With 0, none are made. */
  blockTimeMs?: number | undefined;
  confirmationTimeoutMs?: number | undefined;
};

/**
 * Starts a local chain (anvil) with tokens, payers that have them, and a facilitator. anvil is a child process, and the
 * rest runs in this process.
 */
export async function startDevnet(options: DevnetOptions): Promise<RunningDevnet> {
  const shutdown = new Shutdown();
  try {
    return await start(options, shutdown);
  } catch (error) {
    await shutdown.run(options.log);
    throw error;
  }
}

async function start(options: DevnetOptions, shutdown: Shutdown): Promise<RunningDevnet> {
  const { env, log, ports = {}, blockTimeMs = 1000, confirmationTimeoutMs = 10_000 } = options;
  const anvil = await startAnvil({ env, chainId: CHAIN_ID, port: ports.rpc });
  shutdown.defer("anvil", anvil.stop);

  const accounts = devnetAccounts();
  const chain = connectChain(anvil.rpcUrl, accounts.thirdParty);
  await deployContracts(chain, accounts);
  const mining = startMining(chain, blockTimeMs, log);
  shutdown.defer("mining", mining.stop);

  const faults = new Faults();
  const counter = new Counter();
  const facilitator = createFacilitator(
    connectChain(anvil.rpcUrl, accounts.facilitator),
    confirmationTimeoutMs,
  );
  shutdown.defer("late transactions", facilitator.stop);
  const server = await listen(
    createFacilitatorHandler(facilitator, faults, counter),
    `127.0.0.1:${ports.facilitator ?? 0}`,
  );
  shutdown.defer("facilitator", () => server.close(0));

  const control = await listen(
    createControlHandler({
      faults,
      counter,
      mining,
      rpcUrl: anvil.rpcUrl,
      makeOdd: (oddities) => makeOdd(chain, ADDRESSES.token, oddities),
      describe: () => devnet,
    }),
    `127.0.0.1:${ports.control ?? 0}`,
  );
  shutdown.defer("control port", () => control.close(0));

  const devnet: Devnet = {
    rpcUrl: anvil.rpcUrl,
    nodeUrl: `${control.url}/rpc`,
    facilitatorUrl: server.url,
    controlUrl: control.url,
    chainId: CHAIN_ID,
    network: `eip155:${CHAIN_ID}`,
    networkV1: "base-sepolia",
    token: ADDRESSES.token,
    permit2Tokens: { usdt: ADDRESSES.usdt, dai: ADDRESSES.dai },
    walletFactory: ADDRESSES.walletFactory,
    callerRegistry: ADDRESSES.callerRegistry,
    payers: accounts.payers,
    seller: accounts.seller,
  };
  const stop = async (): Promise<void> => {
    await shutdown.run(log);
  };
  return { ...devnet, fatal: anvil.fatal, stop };
}
