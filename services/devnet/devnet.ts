import { listen } from "../../shared/http/listen.ts";
import { Shutdown } from "../../shared/lifecycle/shutdown.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { startAnvil } from "./anvil.ts";
import {
  ADDRESSES,
  CHAIN_ID,
  castOf,
  connectChain,
  type DevAccount,
  furnish,
  type Hex,
  startMining,
} from "./chain.ts";
import { createControlHandler } from "./control.ts";
import { createFacilitator } from "./facilitator.ts";
import { Counter, createFacilitatorHandler } from "./facilitator-server.ts";
import { Faults } from "./faults.ts";

/** What is where on a devnet. */
export type DevnetPlaces = {
  readonly rpcUrl: string;
  readonly facilitatorUrl: string;
  readonly controlUrl: string;
  readonly chainId: number;
  /** The network's name in version 2 of x402 and in version 1. */
  readonly network: string;
  readonly networkV1: string;
  /** USDC: 6 decimals, EIP-712 domain name "USDC", version "2". */
  readonly token: Hex;
  readonly callerRegistry: Hex;
  /** Each holds a million tokens. */
  readonly payers: readonly DevAccount[];
  /** Has no tokens. */
  readonly seller: Hex;
};

export type Devnet = DevnetPlaces & {
  /** Rejects when the chain ends without having been stopped. */
  readonly fatal: Promise<never>;
  stop(): Promise<void>;
};

export type DevnetOptions = {
  env: NodeJS.ProcessEnv;
  log: Logger;
  /** Each on 127.0.0.1; without it, or with 0, a free one. */
  ports?: { rpc?: number | undefined; facilitator?: number | undefined; control?: number | undefined };
  /** How often a block is made where there is no transaction; 0 is never. */
  blockTimeMs?: number | undefined;
  confirmationTimeoutMs?: number | undefined;
};

/** A chain with a token, funded payers and a facilitator, all in this process but anvil, which ends with it. */
export async function startDevnet(options: DevnetOptions): Promise<Devnet> {
  const shutdown = new Shutdown();
  try {
    return await start(options, shutdown);
  } catch (error) {
    await shutdown.run(options.log);
    throw error;
  }
}

async function start(options: DevnetOptions, shutdown: Shutdown): Promise<Devnet> {
  const { env, log, ports = {}, blockTimeMs = 1000, confirmationTimeoutMs = 10_000 } = options;
  const anvil = await startAnvil({ env, chainId: CHAIN_ID, port: ports.rpc });
  shutdown.defer("anvil", anvil.stop);

  const cast = castOf();
  const chain = connectChain(anvil.rpcUrl, cast.thirdParty);
  await furnish(chain, cast);
  const mining = startMining({ chain, blockTimeMs, log });
  shutdown.defer("mining", mining.stop);

  const faults = new Faults();
  const counter = new Counter();
  const facilitator = createFacilitator({
    chain: connectChain(anvil.rpcUrl, cast.facilitator),
    confirmationTimeoutMs,
  });
  shutdown.defer("late transactions", facilitator.stop);
  const server = await listen(
    createFacilitatorHandler({ facilitator, faults, counter }),
    `127.0.0.1:${ports.facilitator ?? 0}`,
  );
  shutdown.defer("facilitator", () => server.close(0));

  const describe = (): object => places;
  const control = await listen(
    createControlHandler({ faults, counter, mining, describe }),
    `127.0.0.1:${ports.control ?? 0}`,
  );
  shutdown.defer("control port", () => control.close(0));

  const places: DevnetPlaces = {
    rpcUrl: anvil.rpcUrl,
    facilitatorUrl: server.url,
    controlUrl: control.url,
    chainId: CHAIN_ID,
    network: `eip155:${CHAIN_ID}`,
    networkV1: "base-sepolia",
    token: ADDRESSES.token,
    callerRegistry: ADDRESSES.callerRegistry,
    payers: cast.payers,
    seller: cast.seller,
  };
  const stop = async (): Promise<void> => {
    await shutdown.run(log);
  };
  return { ...places, fatal: anvil.fatal, stop };
}
