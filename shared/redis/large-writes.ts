import { setImmediate as nextTurn } from "node:timers/promises";
import type { Redis } from "ioredis";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { connectBeside } from "./connect.ts";
import { createClaimData, type Deployment } from "./deployment.ts";
import { DurableRedis } from "./durable.ts";
import { ownMs } from "./large.ts";
import { type LargeTurn, LargeTurns } from "./large-turns.ts";
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

type Options = {
  mode: DurabilityMode;
  /** The partition over the connection for small writes. Another one like it is opened with the first large write. */
  beside: Partition;
  deployment?: Deployment | undefined;
  /** Shared with the partitions that may lie on the same server. */
  turns?: LargeTurns;
  clock: Clock;
  log: Logger;
};

/**
 * Writes large things, one at a time (large-turns.ts). A write ends in time, whatever its outcome, so that its bytes can be let go.
 */
export class LargeWrites {
  /** The same keys over the connection for large writes. */
  readonly partition: Partition;
  readonly #beside: Redis;
  readonly #durable: DurableRedis;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #turns: LargeTurns;

  constructor({ beside, mode, deployment, turns = new LargeTurns(), clock, log }: Options) {
    this.partition = { ...beside, redis: connectForLarge(beside.redis) };
    this.#beside = beside.redis;
    this.#durable = new DurableRedis({
      redis: this.partition.redis,
      mode,
      checkData: createClaimData(this.partition, deployment),
      log: silentLogger, // what is wrong with this Redis, the other connection logs
      checkEveryMs: "on demand",
    });
    this.#turns = turns;
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
    const turn = this.#turns.at(this.#beside);
    await turn.begin(until - ownMs(bytes), this.#clock);
    try {
      await this.#connected(until);
      await this.#watched(turn, { bytes, until }, () => this.#durable.checkNow());
      return await this.#watched(turn, { bytes, until }, (isSending) => {
        const attempt = () => command().catch((error) => Promise.reject(isSending() ? unsent(error) : error));
        return this.#durable.write(attempt);
      });
    } finally {
      turn.end();
    }
  }

  /** How long Redis may now be silent on other connections, since it is at large writes; 0 if it is not. */
  patienceMs(): number {
    return this.#turns.at(this.#beside).patienceMs;
  }

  close(): void {
    this.#durable.stop();
    this.partition.redis.disconnect();
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
    turn: LargeTurn,
    { bytes, until }: { bytes: number; until: number },
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
    turn.patienceMs = answeringMs;
    socket.on("timeout", onSilence);
    socket.on("drain", look);
    look();
    try {
      return await work(() => isSending === true);
    } finally {
      isOver = true;
      turn.patienceMs = 0;
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
