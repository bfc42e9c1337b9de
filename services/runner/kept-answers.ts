import type { Logger } from "../../shared/platform/log/logger.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { GiveWay } from "../../shared/redis/give-way.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { integer } from "../../shared/redis/reply.ts";
import makeRoomLua from "./make-room.lua";
import { encodeAnswer } from "./remembered-answer.ts";
import type { HttpAnswer } from "./router.ts";

const MAKE_ROOM = defineScript({
  source: makeRoomLua,
  keys: "answers, bytes, prefix",
  args: "bytesToFree",
  proof: "expendable",
  reply: integer,
});

type Options = {
  durable: DurableRedis;
  keys: RunnerKeys;
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
 * Says which answers are kept whole, of all runners on one Redis (shared/redis/kept-values.lua). While Redis uses more of its `maxmemory` than it may, none is, and those that are kept
 * go, the oldest first. In a Redis without `maxmemory`, they are bound by their own bytes alone.
 */
export class KeptAnswers {
  readonly #options: Options;
  readonly #giveWay: GiveWay;

  constructor(options: Options) {
    const { durable, keys, answersMemoryRatioMax: above, log } = options;
    const makeRoom = MAKE_ROOM.on(durable.redis);
    const { answers, answersBytes, answer } = keys;
    const touched = { answers, bytes: answersBytes, prefix: answer("") };
    const evict = (bytesToFree: number) => makeRoom(touched, { bytesToFree });
    this.#options = options;
    this.#giveWay = new GiveWay({ what: "answers", durable, above, begin: () => evict, log });
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
