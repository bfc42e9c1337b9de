import { messageOf } from "../errors/app-error.ts";
import type { CallHead } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import { NOW, script } from "../redis/script.ts";
import { type Clock, within } from "../time/clock.ts";
import { BLOCK_SPAN_MS, beginOf, NewBlock } from "./block.ts";

/** How much of the calls that runners took is remembered. */
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

/** A block makes room for itself; what is too old besides goes a little at a time. */
const STEPS_MAX = 100;

/** What Redis needs for a block beside its bytes. */
const OVERHEAD_BYTES = 200;

/**
 * Lua: `letGo(index, size, prefix, isEnough)` lets go of the oldest blocks until `isEnough(calls, bytes, newest)`, in a bounded number of
 * steps. Returns how many went.
 */
export const LET_GO = `
local function letGo(index, size, prefix, isEnough)
  local calls, bytes, gone = tonumber(redis.call('HGET', size, 'calls') or 0), tonumber(redis.call('HGET', size, 'bytes') or 0), 0
  while gone < ${STEPS_MAX} do
    local oldest = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
    if not oldest[1] or isEnough(calls, bytes, tonumber(oldest[2])) then break end
    local itsCalls, itsBytes, id = string.match(oldest[1], '^(%d+) (%d+) (.*)$')
    redis.call('ZREM', index, oldest[1])
    redis.call('UNLINK', prefix .. id)
    calls, bytes, gone = calls - itsCalls, bytes - itsBytes, gone + 1
  end
  if gone > 0 then redis.call('HSET', size, 'calls', calls, 'bytes', bytes) end
  return gone
end`;

/**
 * KEYS block, index, size, forgotten, history-off. ARGV id, block, how many calls, newest time, ms to keep, most calls, most bytes, what the
 * keys of blocks begin with. A block that is written again is the same one. The lines of calls that were forgotten meanwhile are left out.
 */
const WRITE = `${NOW}${LET_GO}
if redis.call('EXISTS', KEYS[5]) == 1 then return end
local block = ARGV[2]
for _, begin in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
  local from = string.find(block, '\\n' .. begin, 1, true)
  if from then block = string.sub(block, 1, from) .. string.sub(block, string.find(block, '\\n', from + 1, true) + 1) end
end
local bytes = #ARGV[2] + ${OVERHEAD_BYTES}
redis.call('SET', KEYS[1], block, 'PX', ARGV[5])
if redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3] .. ' ' .. bytes .. ' ' .. ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[3], 'calls', ARGV[3])
  redis.call('HINCRBY', KEYS[3], 'bytes', bytes)
end
local callsMax, bytesMax, since = tonumber(ARGV[6]), tonumber(ARGV[7]), now - ARGV[5]
letGo(KEYS[2], KEYS[3], ARGV[8], function(calls, bytes, newest)
  return calls <= callsMax and bytes <= bytesMax and newest >= since
end)
for k = 2, 3 do redis.call('PEXPIRE', KEYS[k], ARGV[5] + ${2 * BLOCK_SPAN_MS}) end`;

type Options = { partition: Partition; limits: HistoryLimits; clock: Clock; log: Logger };

export type CallHistory = {
  /** Remembers a call that its runner took, soon and if possible. It never fails, and nobody waits for it. */
  add(call: CallHead, attempts: number): void;
  /** Writes what is gathered now, and resolves once Redis has it, or did not take it. */
  flush(): Promise<void>;
  /** Writes the rest, and ends the timers. */
  stop(): Promise<void>;
};

/** Remembers the calls that this producer's runners took (block.ts). */
export function createCallHistory({ partition, limits, clock, log }: Options): CallHistory {
  const { redis, keys } = partition;
  const write = script(redis, WRITE);
  const touched = [keys.history, keys.historySize, keys.historyForgotten, keys.historyOff];
  const rest = [limits.keptMs, limits.calls, limits.bytes, keys.historyBlock("")];
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
    const args = [id, block.bytes(), calls, newest, ...rest];
    const written = await within(WRITE_MS, write([keys.historyBlock(id), ...touched], args));
    if (written.kind !== "done" && !isFailing) {
      const reason = written.kind === "late" ? "no answer" : messageOf(written.error);
      log.warn("history.not_written", { calls, reason });
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
    add(call, attempts) {
      const now = clock();
      open ??= new NewBlock(now);
      if (!open.add(call, attempts, now)) {
        begin();
        open = new NewBlock(now);
        open.add(call, attempts, now);
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

/** KEYS forgotten. ARGV how the line of the call begins. */
const TELL_FORGOTTEN = `${NOW}
redis.call('ZADD', KEYS[1], 'NX', now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ${FORGOTTEN_TOLD_MS})
redis.call('PEXPIRE', KEYS[1], ${FORGOTTEN_TOLD_MS})`;

/** KEYS blocks. ARGV how the line of the call begins. The size counted for a block stays. Answers how many blocks had the call. */
const FORGET = `
local found = 0
for _, key in ipairs(KEYS) do
  local block = redis.call('GET', key)
  local from = block and string.find(block, '\\n' .. ARGV[1], 1, true)
  if from then
    block = string.sub(block, 1, from) .. string.sub(block, string.find(block, '\\n', from + 1, true) + 1)
    redis.call('SET', key, block, 'KEEPTTL')
    found = found + 1
  end
end
return found`;

const BLOCKS_AT_ONCE = 16;

/** Takes calls out of the history. */
export function createForgetInHistory({ redis, keys }: Partition) {
  const tell = script(redis, TELL_FORGOTTEN);
  const forget = script(redis, FORGET);

  /** Resolves with whether the call was in a block. */
  async function remove(id: string): Promise<boolean> {
    const members = await redis.zrange(keys.history, "0", "-1");
    const blocks = members.map((member) => keys.historyBlock(idOf(member)));
    let found = 0;
    for (let i = 0; i < blocks.length; i += BLOCKS_AT_ONCE)
      found += Number(await forget(blocks.slice(i, i + BLOCKS_AT_ONCE), [beginOf(id)]));
    return found > 0;
  }

  return {
    remove,
    /** The same, and no producer writes what it has gathered of the call. */
    async forget(id: string): Promise<void> {
      await tell([keys.historyForgotten], [beginOf(id)]);
      await remove(id);
    },
  };
}

/** Of the block that an entry of the index stands for. */
export function idOf(member: string): string {
  return member.split(" ")[2] ?? "";
}
