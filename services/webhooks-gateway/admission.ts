import { AppError } from "../../shared/errors/app-error.ts";
import type { Readiness } from "../../shared/http/ops.ts";
import type { Backpressure } from "../../shared/queue/backpressure.ts";
import type { DurableRedis } from "../../shared/redis/durable-redis.ts";

type Deps = { durable: DurableRedis; backpressure: Backpressure };

/** Whether this replica takes calls now. */
export class Admission {
  readonly #deps: Deps;
  #draining = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get draining(): boolean {
    return this.#draining;
  }

  drain(): void {
    this.#draining = true;
  }

  /** Throws what a sender is answered with: `service.starting` and `queue.*`. A drain still takes what arrives. */
  assertOpen(): void {
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
      ready: redis.ok && !this.#draining,
      checks: {
        redis: redis.text,
        durability: durable.mode,
        draining: this.#draining,
        backpressure: explain(() => backpressure.assertRoom() ?? "none").text,
        workers_alive: pressure?.workersAlive ?? null,
      },
    };
  }
}

function explain(ask: () => string): { ok: boolean; text: string } {
  try {
    return { ok: true, text: ask() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ok: false, text: `${error.code}: ${error.message}` };
  }
}
