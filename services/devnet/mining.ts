import { messageOf } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { delay } from "../../shared/time/clock.ts";
import type { Chain } from "./chain.ts";

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
