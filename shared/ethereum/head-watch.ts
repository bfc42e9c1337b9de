import { messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Clock } from "../time/clock.ts";
import type { Reads } from "./reads.ts";

/** The chain's newest block, read at `at` (unix milliseconds, our clock). */
export type Head = { number: bigint; timestamp: bigint; at: number };

type Deps = { reads: Reads; clock: Clock; log: Logger; chainId: number; everyMs: number };

export type HeadWatch = {
  /** The newest head that was read; `at` says when. */
  last(): Head | undefined;
  /** Reads it now. */
  read(): Promise<Head>;
  start(): void;
  close(): Promise<void>;
};

/** Follows the head in the background; says once that the node is lost, and once that it is back. */
export function createHeadWatch({ reads, clock, log, chainId, everyMs }: Deps): HeadWatch {
  let head: Head | undefined;
  let lost = false;
  let timer: NodeJS.Timeout | undefined;
  let polling: Promise<void> | undefined;

  async function read(): Promise<Head> {
    head = { ...(await reads.block("latest")), at: clock() };
    return head;
  }

  async function poll(): Promise<void> {
    try {
      await read();
      if (lost) log.info("chain.returned", { chainId });
      lost = false;
    } catch (error) {
      if (!lost) log.warn("chain.lost", { chainId, reason: messageOf(error) });
      lost = true;
    }
    if (timer !== undefined) timer = setTimeout(next, everyMs);
  }

  function next(): void {
    polling = poll();
  }

  return {
    last: () => head,
    read,
    start() {
      if (timer !== undefined) return;
      timer = setTimeout(next, 0);
    },
    async close() {
      clearTimeout(timer);
      timer = undefined;
      await polling;
    },
  };
}
