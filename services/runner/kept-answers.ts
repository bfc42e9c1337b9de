import type { Logger } from "../../shared/log/logger.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { GiveWay } from "../../shared/redis/give-way.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { NOW, script } from "../../shared/redis/script.ts";
import { encodeAnswer } from "./remembered-answer.ts";
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

/**
 * Lua: keeps the answer of a call for a time if there is room for it, or can be made; an empty value is not kept. Lets go of those
 * whose time is up.
 */
export const KEEP = `${LET_GO}
local function keep(id, value, ms, bytesMax, key, answers, count)
  local bytes = value ~= '' and #value + ${OVERHEAD_BYTES} or 0
  if bytes > tonumber(bytesMax) then bytes = 0 end
  local _, kept = letGo(answers, count, string.sub(key, 1, -#id - 1), bytesMax - bytes)
  if bytes == 0 or kept + bytes > tonumber(bytesMax) then return end
  redis.call('SET', key, value, 'PX', ms)
  if redis.call('ZADD', answers, now + ms, bytes .. ' ' .. id) == 1 then redis.call('INCRBY', count, bytes) end
end`;

/* ARGV: how many bytes to make free. */
const MAKE_ROOM = `${NOW}${LET_GO}
local kept = tonumber(redis.call('GET', KEYS[2]) or 0)
return (letGo(KEYS[1], KEYS[2], KEYS[3], kept - ARGV[1]))`;

type Options = {
  durable: DurableRedis;
  /** How long an answer is kept, if there is room. */
  answerMs: number;
  /** A larger answer is not kept. */
  resultBytesMax: number;
  /** What all kept answers may take, of all runners on this Redis. */
  answersBytesMax: number;
  /** Above this part of Redis' `maxmemory` no answer is kept. */
  answersMemoryRatioMax: number;
  log: Logger;
};

/**
 * Says which answers are kept whole. While Redis uses more of its `maxmemory` than it may, none is, and those that are kept
 * go, the oldest first. In a Redis without `maxmemory`, they are bound by their own bytes alone.
 */
export class KeptAnswers {
  readonly #options: Options;
  readonly #giveWay: GiveWay;

  constructor(options: Options) {
    const { durable, answersMemoryRatioMax: above, log } = options;
    const makeRoom = script(durable.redis, MAKE_ROOM);
    const keys = [runnerKeys.answers, runnerKeys.answersBytes, runnerKeys.answer("")];
    const letGo = async (bytes: number) => Number(await makeRoom(keys, [bytes]));
    this.#options = options;
    this.#giveWay = new GiveWay({ what: "answers", durable, above, begin: () => letGo, log });
  }

  get answerMs(): number {
    return this.#options.answerMs;
  }

  get answersBytesMax(): number {
    return this.#options.answersBytesMax;
  }

  /** What is to be stored of an answer whole; undefined if nothing. */
  toKeep(callId: string, answer: HttpAnswer): Buffer | undefined {
    const isKept = this.#giveWay.hasRoom && answer.body.length <= this.#options.resultBytesMax;
    return isKept ? encodeAnswer(callId, answer) : undefined;
  }

  stop(): void {
    this.#giveWay.stop();
  }
}
