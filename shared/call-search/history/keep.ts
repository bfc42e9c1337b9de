import type { CallHead } from "../../call/job-call.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import { type Clock, within } from "../../platform/time/clock.ts";
import { defineScript } from "../../redis/define-script.ts";
import { type Partition, shareOf } from "../../redis/partition.ts";
import { integer, nothing } from "../../redis/reply.ts";
import { BLOCK_SPAN_MS, beginOf, NewBlock, type Tried } from "./block.ts";
import forgetLua from "./forget.lua";
import tellForgottenLua from "./tell-forgotten.lua";
import writeBlockLua from "./write-block.lua";

/** How much of the calls that runners took is remembered in all partitions together. */
export type HistoryLimits = {
  /** For how long; 0 is not at all. */
  keptMs: number;
  calls: number;
  bytes: number;
};

/** A call waits for others for so long at most, and then they are written. A producer that is killed loses these. */
const GATHER_MS = 1000;

/** So many blocks wait for Redis; beyond that the oldest is given up. */
const BLOCKS_WAITING_MAX = 8;
const WRITE_MS = 5000;
/** Pause before a block is written again that Redis did not take. */
const RETRY_MS = 5000;
/** A block that could not be written for so long is given up. */
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
  /** Remembers a call that its runner took, soon and if possible. It never fails, and nobody waits for it. */
  add(call: CallHead, tried: Tried): void;
  /** Writes what is gathered now, and resolves once Redis has it, or did not take it. */
  flush(): Promise<void>;
  /** Writes the rest, and ends the timers. */
  stop(): Promise<void>;
};

/** Remembers the calls that this producer's runners took (block.ts). */
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

/** How long the calls that were forgotten are told to writers: longer than a block waits to be written. */
const FORGOTTEN_TOLD_MS = 2 * GIVEN_UP_MS;

const TELL_FORGOTTEN = defineScript({
  source: tellForgottenLua,
  keys: "forgotten",
  args: "line",
  constants: { FORGOTTEN_TOLD_MS },
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

/** Takes calls out of the history. */
export function createForgetInHistory({ redis, keys }: Partition) {
  const [tell, forget] = [TELL_FORGOTTEN.on(redis), FORGET.on(redis)];

  /** Resolves with whether the call was in a block. */
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
    /** The same, and no producer writes what it has gathered of the call. */
    async forget(id: string): Promise<void> {
      await tell({ forgotten: keys.historyForgotten }, { line: beginOf(id) });
      await remove(id);
    },
  };
}

/** Of the block that an entry of the index stands for. */
export function idOf(member: string): string {
  return member.split(" ")[2] ?? "";
}
