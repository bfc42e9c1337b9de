import { setImmediate as nextTurn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { connectBeside } from "./connect.ts";
import { createClaimData, type Deployment } from "./deployment.ts";
import { DurableRedis } from "./durable.ts";
import { ownMs } from "./large.ts";
import type { Partition } from "./partition.ts";
import { proverOf, proveWith } from "./prover.ts";
import { whenReady } from "./ready.ts";
import type { DurabilityMode } from "./server-state.ts";

/** Silence on the connection after which Redis is asked elsewhere. */
const SILENT_MS = 1500;
/** An answer elsewhere is older than that if anything has moved here since. */
const ANSWERED_MS = SILENT_MS + 300;
const LOOK_EVERY_MS = 50;
const CONNECT_MS = 2000;

/** A write that waits for its turn, and when it must have begun. */
type Waiting = { lastBegin: number; begin: () => void };

type Options = {
  mode: DurabilityMode;
  /** The partition over the connection for small writes. Another one like it is opened with the first large write. */
  beside: Partition;
  deployment?: Deployment | undefined;
  clock: Clock;
  log: Logger;
};

/**
 * Writes large things, one at a time: Redis does nothing else while it reads, runs and syncs one, and so does it for one at
 * most between two small writes. The turn goes to the write that must begin first, so that a smaller one does not wait for all
 * the larger ones before it. None starves by that: what comes within the last seconds of its own time must begin later. A write
 * ends in time, whatever its outcome, so that its bytes can be let go.
 */
export class LargeWrites {
  /** The same keys over the connection for large writes. */
  readonly partition: Partition;
  readonly #beside: Redis;
  readonly #durable: DurableRedis;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #waiting = new Set<Waiting>();
  #isBusy = false;
  #patienceMs = 0;

  constructor({ beside, mode, deployment, clock, log }: Options) {
    this.partition = { ...beside, redis: connectForLarge(beside.redis) };
    this.#beside = beside.redis;
    this.#durable = new DurableRedis({
      redis: this.partition.redis,
      mode,
      checkData: createClaimData(this.partition, deployment),
      log: silentLogger, // what is wrong with this Redis, the other connection logs
      checkEveryMs: "on demand",
    });
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Waits for its turn, runs a write on `partition` and resolves once it is on disk. Settles by `until`. Throws an AppError if
   * Redis did not get all of the write, and so none; after another rejection it may have happened or not.
   */
  async write<Result>(
    command: () => Promise<Result>,
    { bytes, until }: { bytes: number; until: number },
  ): Promise<Result> {
    await this.#turn(until - ownMs(bytes));
    try {
      await this.#connected(until);
      await this.#watched(bytes, until, () => this.#durable.checkNow());
      return await this.#watched(bytes, until, (isSending) => {
        const attempt = () => command().catch((error) => Promise.reject(isSending() ? unsent(error) : error));
        return this.#durable.write(attempt);
      });
    } finally {
      this.#next();
    }
  }

  /** How long Redis may now be silent on other connections, since it is at large writes; 0 if it is not. */
  patienceMs(): number {
    return this.#patienceMs;
  }

  close(): void {
    this.#durable.stop();
    this.partition.redis.disconnect();
  }

  async #turn(lastBegin: number): Promise<void> {
    if (!this.#isBusy) {
      this.#isBusy = true;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const begin = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const waiting: Waiting = { lastBegin, begin };
      const giveUp = (): void => {
        this.#waiting.delete(waiting);
        const reason = "Redis was busy with other large calls";
        reject(new AppError("queue.unavailable", { reason, retryAfterMs: 5000 }));
      };
      const timer = setTimeout(giveUp, lastBegin - this.#clock());
      this.#waiting.add(waiting);
    });
  }

  #next(): void {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting) {
      if (next === undefined || waiting.lastBegin < next.lastBegin) next = waiting;
    }
    if (next === undefined) {
      this.#isBusy = false;
      return;
    }
    this.#waiting.delete(next);
    next.begin();
  }

  async #connected(until: number): Promise<void> {
    const { redis } = this.partition;
    if (redis.status === "wait") redis.connect().catch(() => {});
    await whenReady(redis, Math.min(CONNECT_MS, Math.max(0, until - this.#clock())));
  }

  /**
   * Cuts the connection at the deadline, or if nothing has moved on it while Redis has answered twice on the other one. A Redis that answers
   * nowhere may be busy with a large call of another gateway; one that has answered once may be busy with this call since then. Node's time-out
   * of a socket sees how one write goes out piece by piece. Once all bytes are out, Redis has time by their size to answer.
   */
  async #watched<Result>(
    bytes: number,
    until: number,
    work: (isSending: () => boolean) => Promise<Result>,
  ): Promise<Result> {
    const { stream: socket } = this.partition.redis;
    const answeringMs = SILENT_MS + ownMs(bytes) / 2;
    let isSending: boolean | undefined;
    let isOver = false;
    let answeredAt = Number.NEGATIVE_INFINITY;
    const look = (): void => {
      if (isSending === socket.writableLength > 0) return;
      isSending = socket.writableLength > 0;
      socket.setTimeout(isSending ? SILENT_MS : answeringMs);
    };
    const cut = (event: string): void => {
      look();
      this.#log.warn(event, { bytes });
      socket.destroy();
    };
    const ask = async (isAgain: boolean): Promise<void> => {
      const { bytesRead } = socket;
      socket.setTimeout(SILENT_MS);
      await this.#beside.ping();
      await nextTurn(); // a reply here may be read after the one there
      if (isOver) return;
      if (isAgain && socket.bytesRead === bytesRead) return cut("redis.unresponsive");
      answeredAt = performance.now();
      socket.setTimeout(SILENT_MS);
    };
    const onSilence = (): void => {
      const { bytesRead } = socket;
      // If this process stood still, its timer ends before it reads what has come meanwhile.
      setImmediate(() => {
        if (isOver || socket.bytesRead !== bytesRead) return;
        const isAgain = performance.now() - answeredAt < ANSWERED_MS;
        ask(isAgain).catch(() => {}); // no answer: it is asked again
      });
    };
    const deadline = setTimeout(() => cut("redis.slow"), until - this.#clock());
    const looks = setInterval(look, LOOK_EVERY_MS);
    this.#patienceMs = answeringMs;
    socket.on("timeout", onSilence);
    socket.on("drain", look);
    look();
    try {
      return await work(() => isSending === true);
    } finally {
      isOver = true;
      this.#patienceMs = 0;
      clearTimeout(deadline);
      clearInterval(looks);
      socket.setTimeout(0);
      socket.off("timeout", onSilence);
      socket.off("drain", look);
    }
  }
}

/**
 * Another connection to the same Redis, which opens with `connect()`. None of its commands times out by itself: its owner
 * says when it is dead.
 */
function connectForLarge(redis: Redis): Redis {
  const beside = connectBeside(redis, { lazyConnect: true });
  delete beside.options.commandTimeout;
  proveWith(beside, proverOf(redis)?.over(beside));
  return beside;
}

/** Redis runs nothing that it does not have whole. */
function unsent(cause: unknown): AppError {
  const reason = `the connection to Redis closed before the whole call was sent: ${messageOf(cause)}`;
  return new AppError("queue.unavailable", { reason, retryAfterMs: 5000, cause });
}
