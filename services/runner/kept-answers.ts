import type { Logger } from "../../shared/platform/log/logger.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import { Evictor } from "../../shared/redis/eviction.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { integer } from "../../shared/redis/reply.ts";
import makeRoomLua from "./make-room.lua";
import { encodeAnswer } from "./remembered-answer.ts";
import type { HttpAnswer } from "./router.ts";

const EVICT = defineScript({
  source: makeRoomLua,
  keys: "answers, bytes, prefix",
  args: "bytesToFree",
  proof: "expendable",
  reply: integer,
});

type Options = {
  durable: DurableRedis;
  keys: RunnerKeys;
  /** Time for which an answer is kept. If memory is short, the answer is evicted earlier. */
  answerMs: number;
  /** Maximum size of a kept answer. */
  resultBytesMax: number;
  /** Maximum size of all kept answers together, for all runners on this Redis. */
  answersBytesMax: number;
  /** No answer is kept while Redis uses more than this fraction of its `maxmemory`. */
  answersMemoryRatioMax: number;
  log: Logger;
};

/**
 * Decides which answers are kept with their body, for all runners on one Redis (shared/redis/kept-values.lua). While Redis
 * uses too much of its `maxmemory` (`answersMemoryRatioMax`), no answer is kept, and kept answers are evicted, oldest first.
 * If Redis has no `maxmemory`, only `answersBytesMax` limits them.
 */
export class KeptAnswers {
  readonly #options: Options;
  readonly #evictor: Evictor;

  constructor(options: Options) {
    const { durable, keys, answersMemoryRatioMax: above, log } = options;
    const makeRoom = EVICT.on(durable.redis);
    const { answers, answersBytes, answer } = keys;
    const touched = { answers, bytes: answersBytes, prefix: answer("") };
    const evict = (bytesToFree: number) => makeRoom(touched, { bytesToFree });
    this.#options = options;
    this.#evictor = new Evictor({ what: "answers", durable, above, begin: () => evict, log });
  }

  get answerMs(): number {
    return this.#options.answerMs;
  }

  get answersBytesMax(): number {
    return this.#options.answersBytesMax;
  }

  /** Encodes an answer for storage. Undefined if it is not stored: it is too large, Redis is too full, or it can be rebuilt. */
  toKeep(callId: string, answer: HttpAnswer): Buffer | undefined {
    const isKept = this.#evictor.hasCapacity && answer.body.length <= this.#options.resultBytesMax;
    return isKept ? encodeAnswer(callId, answer) : undefined;
  }

  stop(): void {
    this.#evictor.stop();
  }
}
