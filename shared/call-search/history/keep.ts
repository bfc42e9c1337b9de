import type { CallHead } from "../../call/job-call.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { type Clock, within } from "../../platform/time/clock.ts";
import { defineScript } from "../../redis/define-script.ts";
import { type Partition, shareOf } from "../../redis/partition.ts";
import { integer, nothing } from "../../redis/reply.ts";
import { type AttemptSummary, BLOCK_SPAN_MS, beginOf, NewBlock } from "./block.ts";
import forgetLua from "./forget.lua";
import listForgottenLua from "./list-forgotten.lua";
import writeBlockLua from "./write-block.lua";

/** Limits of the history of injected calls, for all partitions together. */
export type HistoryLimits = {
  /** Retention time of calls; 0 disables the history. */
  keptMs: number;
  calls: number;
  bytes: number;
};

/** Maximum time for which calls are collected before they are written. If the producer is killed, the history lacks them. */
const GATHER_MS = 1000;

/** Maximum number of blocks that wait for Redis. Above it, the oldest block is dropped. */
const BLOCKS_WAITING_MAX = 8;
const WRITE_MS = 5000;
/** Pause before a failed write is repeated. */
const RETRY_MS = 5000;
/** Maximum age of a block whose write is repeated. An older block is dropped. */
export const GIVEN_UP_MS = 60_000;

const WRITE = defineScript({
  source: writeBlockLua,
  keys: "block, index, size, forgotten, off",
  args: "id, text, calls, newest, keptMs, callsMax, bytesMax, prefix",
  constants: { BLOCK_SPAN_MS },
  proof: "expendable",
  reply: nothing,
});

type Options = { partition: Partition; limits: HistoryLimits; clock: Clock; log: Logger };

export type CallHistory = {
  /**
   * Adds a call that its runner accepted. Returns at once and never fails: the call is written later, or is missing in the
   * history.
   */
  add(call: CallHead, tried: AttemptSummary): void;
  /** Writes the collected calls now. Resolves once Redis has stored or refused them. */
  flush(): Promise<void>;
  /** Writes the remaining calls, and ends the timers. */
  stop(): Promise<void>;
};

/** Creates the history of the calls that this producer injects (block.ts). */
export function createCallHistory({ partition, limits, clock, log }: Options): CallHistory {
  const { redis, keys } = partition;
  const write = WRITE.on(redis);
  const touched = {
    index: keys.history,
    size: keys.historySize,
    forgotten: keys.historyForgotten,
    off: keys.historyOff,
  };
  const share = (limit: number) => shareOf(limit, partition.count);
  const bounds = { keptMs: limits.keptMs, callsMax: share(limits.calls), bytesMax: share(limits.bytes) };
  const waiting: NewBlock[] = [];
  let open: NewBlock | undefined;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let isFailing = false;

  function close(): void {
    clearTimeout(timer);
    timer = undefined;
    if (open === undefined) return;
    waiting.push(open);
    open = undefined;
    if (waiting.length > BLOCKS_WAITING_MAX) waiting.shift();
  }

  async function writeOne(block: NewBlock): Promise<boolean> {
    if (redis.status !== "ready") return false;
    const { id, calls, newest } = block;
    const words = { id, text: block.bytes(), calls, newest, ...bounds, prefix: keys.historyBlock("") };
    const written = await within(WRITE_MS, write({ block: keys.historyBlock(id), ...touched }, words));
    if (written.kind !== "done" && !isFailing) {
      const reason =
        written.kind === "late" ? `Redis did not answer within ${WRITE_MS} ms` : messageOf(written.error);
      log.warn("history.write_failed", { calls, reason });
    }
    isFailing = written.kind !== "done";
    return !isFailing;
  }

  async function writeAll(): Promise<void> {
    for (let block = waiting[0]; block !== undefined; block = waiting[0]) {
      const isGone = clock() - block.begunAt > GIVEN_UP_MS;
      if (!isGone && !(await writeOne(block))) {
        timer ??= setTimeout(begin, RETRY_MS).unref();
        return;
      }
      if (waiting[0] === block) waiting.shift();
    }
  }

  function begin(): void {
    close();
    writing ??= writeAll().finally(() => {
      writing = undefined;
    });
  }

  async function flush(): Promise<void> {
    begin();
    await writing;
  }

  return {
    add(call, tried) {
      const now = clock();
      open ??= new NewBlock(now);
      if (!open.add(call, tried, now)) {
        begin();
        open = new NewBlock(now);
        open.add(call, tried, now);
      }
      timer ??= setTimeout(begin, GATHER_MS).unref();
    },
    flush,
    async stop() {
      await flush();
      clearTimeout(timer);
    },
  };
}

/**
 * Time for which a forgotten call is in a list. The script that writes a block leaves out the calls in this list
 * (write-block.lua). This is needed because a producer may have added the call to a block before the call was forgotten. No
 * block waits longer than this.
 */
const FORGOTTEN_LISTED_MS = 2 * GIVEN_UP_MS;

const LIST_FORGOTTEN = defineScript({
  source: listForgottenLua,
  keys: "forgotten",
  args: "line",
  constants: { FORGOTTEN_LISTED_MS },
  proof: "needed",
  reply: nothing,
});

const FORGET = defineScript({
  source: forgetLua,
  keys: "...blocks",
  args: "line",
  proof: "needed",
  reply: integer,
});

const BLOCKS_AT_ONCE = 16;

/** Creates the functions that remove calls from the history. */
export function createForgetInHistory({ redis, keys }: Partition) {
  const [list, forget] = [LIST_FORGOTTEN.on(redis), FORGET.on(redis)];

  /** Removes the call from all blocks. Resolves with true if a block had it. */
  async function remove(id: string): Promise<boolean> {
    const members = await redis.zrange(keys.history, "0", "-1");
    const blocks = members.map((member) => keys.historyBlock(idOf(member)));
    let found = 0;
    for (let i = 0; i < blocks.length; i += BLOCKS_AT_ONCE)
      found += await forget({ blocks: blocks.slice(i, i + BLOCKS_AT_ONCE) }, { line: beginOf(id) });
    return found > 0;
  }

  return {
    remove,
    /** Removes the call. Producers that have collected it, but not written it yet, will leave it out. */
    async forget(id: string): Promise<void> {
      await list({ forgotten: keys.historyForgotten }, { line: beginOf(id) });
      await remove(id);
    },
  };
}

/** Returns the id of the block in an entry of the index. */
export function idOf(member: string): string {
  return member.split(" ")[2] ?? "";
}
