import type { Redis } from "ioredis";
import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import { type DurabilityMode, readServerState, type ServerState } from "./server-state.ts";

type Options = {
  redis: Redis;
  mode: DurabilityMode;
  log: Logger;
  /** How often the server is asked again whether it still keeps promises. */
  checkEveryMs?: number;
};

type State =
  | { readonly kind: "starting" }
  | { readonly kind: "away"; readonly reason: string }
  | { readonly kind: "refused"; readonly error: AppError }
  | { readonly kind: "ready"; readonly server: ServerState };

const WAITAOF_TIMEOUT_MS = 1400;

/**
 * A connection whose writes are known to be on disk. It watches the server: before the first check has passed, while
 * Redis is away, and while its settings break the promise, `write` refuses.
 */
export class DurableRedis {
  readonly redis: Redis;
  readonly mode: DurabilityMode;
  /** Resolves when the first check passed; rejects when the first Redis reached cannot keep promises. */
  readonly firstCheck: Promise<void>;
  readonly #log: Logger;
  readonly #timer: NodeJS.Timeout;
  #state: State = { kind: "starting" };
  #connection = 0;
  #pendingProof: Promise<void> | undefined;
  #settleFirst: { resolve: () => void; reject: (error: AppError) => void } | undefined;

  constructor({ redis, mode, log, checkEveryMs = 1000 }: Options) {
    this.redis = redis;
    this.mode = mode;
    this.#log = log;
    this.firstCheck = new Promise((resolve, reject) => {
      this.#settleFirst = { resolve, reject };
    });
    this.firstCheck.catch(() => {});
    redis.on("ready", this.#onReady);
    redis.on("close", this.#onClose);
    this.#timer = setInterval(() => void this.#check(), checkEveryMs);
    if (redis.status === "ready") this.#onReady();
  }

  /** The server's state as last seen; throws the reason for which calls cannot be taken now. */
  server(): ServerState {
    switch (this.#state.kind) {
      case "ready":
        return this.#state.server;
      case "refused":
        throw new AppError("queue.not_durable", { reason: this.#state.error.message, retryAfterMs: 5000 });
      case "away":
        throw new AppError("queue.unavailable", { reason: this.#state.reason, retryAfterMs: 2000 });
      case "starting":
        throw new AppError("service.starting", {
          reason: "Redis has not been reached yet",
          retryAfterMs: 2000,
        });
    }
  }

  /** Runs a write and resolves once it is on disk. A rejection leaves the outcome open. */
  async write<Result>(command: () => Promise<Result>): Promise<Result> {
    const { proof } = this.server();
    const connection = this.#connection;
    const result = await command();
    if (proof === "waitaof") await this.#proveOnDisk(connection);
    return result;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.redis.off("ready", this.#onReady);
    this.redis.off("close", this.#onClose);
  }

  /** WAITAOF speaks only for earlier writes of its own connection: after a reconnect it would prove nothing. */
  async #proveOnDisk(connection: number): Promise<void> {
    this.#pendingProof ??= new Promise<void>((resolve, reject) => {
      setImmediate(() => {
        this.#pendingProof = undefined;
        this.#waitAof().then(resolve, reject);
      });
    });
    await this.#pendingProof;
    if (connection !== this.#connection) throw new Error("Redis connection changed before WAITAOF answered");
  }

  async #waitAof(): Promise<void> {
    const reply = await this.redis.call("WAITAOF", 1, 0, WAITAOF_TIMEOUT_MS - 200);
    if (Number((reply as unknown[])[0]) < 1)
      throw new Error("WAITAOF timed out: the write is not known to be on disk");
  }

  readonly #onReady = (): void => {
    this.#connection += 1;
    void this.#check();
  };

  readonly #onClose = (): void => {
    if (this.#state.kind !== "starting")
      this.#state = { kind: "away", reason: "connection to Redis is closed" };
  };

  async #check(): Promise<void> {
    if (this.redis.status !== "ready") return;
    const connection = this.#connection;
    const next = await this.#ask();
    if (connection !== this.#connection || this.redis.status !== "ready") return;
    this.#report(next);
    this.#state = next;
    if (next.kind === "ready") this.#settleFirst?.resolve();
    if (next.kind === "refused") this.#settleFirst?.reject(next.error);
  }

  async #ask(): Promise<State> {
    try {
      return { kind: "ready", server: await readServerState(this.redis, this.mode) };
    } catch (error) {
      if (error instanceof AppError) return { kind: "refused", error };
      if (messageOf(error).includes("timed out")) this.#reconnect();
      return { kind: "away", reason: messageOf(error) };
    }
  }

  /** A connection on which nothing comes back may be dead without a word; a new one shows whether Redis is. */
  #reconnect(): void {
    this.#log.warn("redis.silent");
    this.redis.disconnect(true);
  }

  #report(next: State): void {
    if (next.kind === this.#state.kind) return;
    if (next.kind === "refused") this.#log.error("redis.refused", { reason: next.error.message });
    if (next.kind === "ready")
      this.#log.info("redis.ready", { durability: this.mode, proof: next.server.proof });
  }
}
