import { AppError } from "../errors/app-error.ts";
import type { Readiness } from "../http/ops.ts";
import { explain } from "../http/readiness.ts";
import type { DurableRedis } from "../redis/durable.ts";
import type { Backpressure } from "./backpressure.ts";

type Deps = { durable: DurableRedis; backpressure: Backpressure };

/**
 * Whether this replica takes calls now. It ends in two steps: while it drains it is not ready and still takes what
 * arrives, since a load balancer sends on for some seconds; once it is stopped it takes nothing.
 */
export class Admission {
  readonly #deps: Deps;
  #state: "open" | "draining" | "stopped" = "open";

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Whether the end has begun: every answer is then the last of its connection. */
  get ending(): boolean {
    return this.#state !== "open";
  }

  drain(): void {
    if (this.#state === "open") this.#state = "draining";
  }

  stop(): void {
    this.#state = "stopped";
  }

  /** Throws what a sender is answered with: `service.draining` once stopped, `service.starting` and `queue.*`. */
  assertOpen(): void {
    if (this.#state === "stopped") throw new AppError("service.draining", { reason: "the gateway stops" });
    this.#deps.durable.server();
    this.#deps.backpressure.assertRoom();
  }

  /**
   * Not ready only for reasons of this replica's own: its Redis, its drain, its start. Backpressure and silent workers
   * are the same for every replica, so they are reported and change nothing here.
   */
  readiness(): Readiness {
    const { durable, backpressure } = this.#deps;
    const redis = explain(() => durable.server().proof);
    const pressure = backpressure.seen();
    return {
      ready: redis.ok && !this.ending,
      checks: {
        redis: redis.text,
        durability: durable.mode,
        draining: this.ending,
        backpressure: explain(() => backpressure.assertRoom() ?? "none").text,
        workers_alive: pressure?.workersAlive ?? null,
      },
    };
  }
}
