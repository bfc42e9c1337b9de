import { explain, type Readiness } from "../http/readiness.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { clockCheck } from "../redis/clock.ts";
import type { DurableRedis } from "../redis/durable.ts";
import type { Backpressure } from "./backpressure.ts";

/**
 * Whether this replica takes calls now. It ends in two steps: while it drains it is not ready but still takes requests,
 * because a load balancer sends them until it has noticed; once it is stopped it takes none.
 */
export class Admission {
  readonly #durable: DurableRedis;
  readonly #backpressure: Backpressure;
  #state: "open" | "draining" | "stopped" = "open";

  constructor(durable: DurableRedis, backpressure: Backpressure) {
    this.#durable = durable;
    this.#backpressure = backpressure;
  }

  get ending(): boolean {
    return this.#state !== "open";
  }

  drain(): void {
    if (this.#state === "open") this.#state = "draining";
  }

  stop(): void {
    this.#state = "stopped";
  }

  /** Throws `service.draining`, `service.starting` or `queue.*` while calls, or those of this job, cannot be taken. */
  assertOpen(job?: string): void {
    if (this.#state === "stopped")
      throw new AppError("service.draining", { reason: "the gateway is shutting down" });
    this.#durable.assertUsable();
    this.#backpressure.assertRoom(job);
  }

  /** Throws `queue.overloaded` while too many callbacks wait for a receiver that a request names. */
  assertReceiverOpen(receiver: string): void {
    this.#backpressure.assertRoomAt(receiver);
  }

  /**
   * Not ready only for this replica's own reasons: its Redis, its drain, its start. Backpressure and silent workers are the
   * same for every replica, so they are only reported.
   */
  readiness(): Readiness {
    const redis = explain(() => this.#durable.server().proof);
    const pressure = this.#backpressure.seen();
    return {
      ready: redis.ok && !this.ending,
      checks: {
        redis: redis.text,
        writes: this.#durable.fullReason ?? "taken",
        durability: this.#durable.mode,
        maxmemory_bytes: this.#durable.isUsable ? this.#durable.server().maxMemoryBytes : null,
        ...clockCheck(this.#durable.redis),
        draining: this.ending,
        backpressure: explain(() => {
          this.#backpressure.assertRoom();
          return "none";
        }).text,
        workers_alive: pressure?.workersAlive ?? null,
      },
    };
  }
}
