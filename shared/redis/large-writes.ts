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

/**
 * If the connection for large writes is silent for this long, a PING on the connection for small writes tests whether Redis
 * answers.
 */
const SILENT_MS = 1500;
/**
 * Maximum time from the answer to a PING until the next timeout, if the connection stays silent. If the next timeout comes
 * later than this, some data has restarted it in between, so the connection was not silent.
 */
const ANSWERED_MS = SILENT_MS + 300;
const CHECK_EVERY_MS = 50;
const CONNECT_MS = 2000;

type Options = {
  mode: DurabilityMode;
  /** The partition with the connection for small writes. A second connection is opened with the first large write. */
  beside: Partition;
  deployment?: Deployment | undefined;
  /** The turns of large writes at each server. All partitions share them, because several partitions may be on one server. */
  turns?: LargeTurns;
  clock: Clock;
  log: Logger;
};

/**
 * Runs large writes, one at a time (large-turns.ts), on a connection of their own. A write always ends by its deadline,
 * because the memory of its bytes must be freed then.
 */
export class LargeWrites {
  /** The partition of `beside`, but with the connection for large writes. */
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
      log: silentLogger, // the other connection logs problems of this Redis
      checkEveryMs: "on demand",
    });
    this.#turns = turns;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Waits for a turn, runs a write on `partition` and resolves once it is on disk. It resolves or rejects by `until`. Throws
   * an AppError if Redis did not receive the whole write, and therefore ran nothing. After any other error the write may have
   * happened.
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

  /**
   * Returns the time in ms for which Redis may now be silent on other connections, because a large write is running. 0 if
   * none is running.
   */
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
   * Runs `work`. Destroys the connection at the deadline, or earlier if it seems dead: it stays silent while Redis answers
   * two PINGs on the other connection. One answer is not enough: Redis may have begun to run this write just after it, and is
   * silent until the write has run. If Redis answers on neither connection, it may be busy with a large write of another
   * gateway, so the connection is kept.
   *
   * Node's socket timeout starts again with each part of the write that is sent. Once all bytes are sent, the timeout for the
   * reply grows with the size of the write.
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
      await nextTurn(); // both connections may have data: then a reply to the large write is read after the PING's
      if (isOver) return;
      if (isAgain && socket.bytesRead === bytesRead) return cut("redis.unresponsive");
      answeredAt = performance.now();
      socket.setTimeout(SILENT_MS);
    };
    const onSilence = (): void => {
      const { bytesRead } = socket;
      // After a suspension of this process, the timeout can fire although data has arrived, because it was not read yet.
      setImmediate(() => {
        if (isOver || socket.bytesRead !== bytesRead) return;
        const isAgain = performance.now() - answeredAt < ANSWERED_MS;
        ask(isAgain).catch(() => {}); // without an answer, the next timeout asks again
      });
    };
    const deadline = setTimeout(() => cut("redis.slow"), until - this.#clock());
    const looks = setInterval(look, CHECK_EVERY_MS);
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
 * Creates another connection to the same Redis. It opens only on `connect()`. Its commands have no timeout, because
 * `LargeWrites` destroys a dead connection.
 */
function connectForLarge(redis: Redis): Redis {
  const beside = connectBeside(redis, { lazyConnect: true });
  delete beside.options.commandTimeout;
  proveWith(beside, proverOf(redis)?.over(beside));
  return beside;
}

/** Creates the error for a write that Redis did not receive in full, and therefore did not run. */
function unsent(cause: unknown): AppError {
  const reason = `the connection to Redis closed before the whole call was sent: ${messageOf(cause)}`;
  return new AppError("queue.unavailable", { reason, retryAfterMs: 5000, cause });
}
