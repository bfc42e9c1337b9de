import { messageOf } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { NOW, script } from "../../shared/redis/script.ts";
import { readServerState, type ServerState } from "../../shared/redis/server-state.ts";
import { toKept } from "./remembered-answer.ts";
import type { HttpAnswer } from "./router.ts";

/*
 * The answers that are kept whole, of all runners on one Redis. What they take is counted in the same step in which one
 * comes or goes. An answer whose time is up is still counted until some script lets go of it, so the count is never too low.
 */

/**
 * What Redis needs for a kept answer beside its bytes: the key and its expiry, and the entry of the index, for a key of 34
 * bytes. Measured.
 */
const OVERHEAD_BYTES = 320;

/** An answer that comes lets go of so many others at most; if that makes no room, it is not kept itself. */
const STEPS_MAX = 100;

/**
 * Lua: lets go of the oldest answers while their time is up or all together take more than `bytesMax`, in a bounded number
 * of steps, and returns how many went and what the others take. Its first write needs no memory, so a full Redis takes it.
 */
const LET_GO = `
local function letGo(answers, count, prefix, bytesMax)
  local kept, gone = tonumber(redis.call('GET', count) or 0), 0
  while gone < ${STEPS_MAX} do
    local oldest = redis.call('ZRANGE', answers, 0, 0, 'WITHSCORES')
    if not oldest[1] or (tonumber(oldest[2]) > now and kept <= bytesMax) then break end
    local bytes, id = string.match(oldest[1], '^(%d+) (.*)$')
    redis.call('ZREM', answers, oldest[1])
    redis.call('DEL', prefix .. id)
    kept, gone = kept - bytes, gone + 1
  end
  if gone > 0 then redis.call('SET', count, kept) end
  return gone, kept
end`;

/** Lua: keeps the answer of a call for a time if there is room for it, or can be made. */
export const KEEP = `${LET_GO}
local function keep(id, value, ms, bytesMax, key, answers, count)
  local bytes = #value + ${OVERHEAD_BYTES}
  if bytes > tonumber(bytesMax) then return end
  local _, kept = letGo(answers, count, string.sub(key, 1, -#id - 1), bytesMax - bytes)
  if kept + bytes > tonumber(bytesMax) then return end
  redis.call('SET', key, value, 'PX', ms)
  redis.call('ZADD', answers, now + ms, bytes .. ' ' .. id)
  redis.call('INCRBY', count, bytes)
end`;

/* ARGV: how many bytes to make free. */
const MAKE_ROOM = `${NOW}${LET_GO}
local kept = tonumber(redis.call('GET', KEYS[2]) or 0)
return (letGo(KEYS[1], KEYS[2], KEYS[3], kept - ARGV[1]))`;

/** Once Redis was too full, answers are kept again when it is below this part of the limit. */
const ENOUGH = 0.95;

type Memory = Pick<ServerState, "usedMemoryBytes" | "maxMemoryBytes">;

type Options = {
  durable: DurableRedis;
  /** How long an answer is kept, if there is room. */
  answerMs: number;
  /** A larger answer is not kept. */
  resultBytesMax: number;
  /** What all kept answers may take, of all runners on this Redis. */
  answersBytesMax: number;
  /** Above this part of Redis' `maxmemory` no answer is kept. */
  memoryRatioMax: number;
  log: Logger;
  checkEveryMs?: number;
};

/**
 * Says which answers are kept whole. While Redis uses more of its `maxmemory` than it may, none is, and those that are kept
 * go, the oldest first. In a Redis without `maxmemory`, they are bound by their own bytes alone.
 */
export class KeptAnswers {
  readonly #options: Options;
  readonly #makeRoom: ReturnType<typeof script>;
  readonly #timer: NodeJS.Timeout;
  #looking = false;
  /** How many were let go since Redis was found too full; undefined while it is not. */
  #gone: number | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#makeRoom = script(options.durable.redis, MAKE_ROOM);
    this.#timer = setInterval(() => void this.#look(), options.checkEveryMs ?? 1000);
  }

  get answerMs(): number {
    return this.#options.answerMs;
  }

  get answersBytesMax(): number {
    return this.#options.answersBytesMax;
  }

  /** What is to be stored of an answer whole; undefined if nothing. */
  toKeep(callId: string, answer: HttpAnswer): Buffer | undefined {
    const isKept = this.#hasRoom && answer.body.length <= this.#options.resultBytesMax;
    return isKept ? toKept(callId, answer) : undefined;
  }

  get #hasRoom(): boolean {
    return this.#gone === undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { durable, log } = this.#options;
    if (this.#looking || !durable.isUsable) return;
    this.#looking = true;
    try {
      await this.#giveWay(durable.server());
    } catch (error) {
      log.warn("answers.not_looked_at", { reason: messageOf(error) });
    } finally {
      this.#looking = false;
    }
  }

  async #giveWay(found: Memory): Promise<void> {
    const { durable, memoryRatioMax } = this.#options;
    if (this.#hasRoom && bytesOver(found, memoryRatioMax) > 0) this.#begin(found);
    let memory = found;
    while (!this.#hasRoom) {
      const over = bytesOver(memory, memoryRatioMax * ENOUGH);
      if (over === 0) return this.#end();
      const keys = [runnerKeys.answers, runnerKeys.answersBytes, runnerKeys.answer("")];
      const gone = Number(await this.#makeRoom(keys, [over]));
      if (gone === 0) return;
      this.#gone = (this.#gone ?? 0) + gone;
      memory = await readServerState(durable.redis, durable.mode);
    }
  }

  #begin(found: Memory): void {
    this.#gone = 0;
    const { usedMemoryBytes, maxMemoryBytes } = found;
    this.#options.log.warn("answers.give_way", { usedMemoryBytes, maxMemoryBytes });
  }

  #end(): void {
    this.#options.log.info("answers.kept_again", { letGo: this.#gone });
    this.#gone = undefined;
  }
}

/** How many bytes are above this part of `maxmemory`; 0 if there is none. */
function bytesOver({ usedMemoryBytes, maxMemoryBytes }: Memory, part: number): number {
  return maxMemoryBytes === 0 ? 0 : Math.max(0, Math.ceil(usedMemoryBytes - part * maxMemoryBytes));
}
