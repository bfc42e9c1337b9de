import { randomCallId } from "../call/call-id.ts";
import { type JobIds, jobKey } from "../call/job-ids.ts";
import { explain, partitionChecks, type Readiness } from "../http/readiness.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { clockCheck } from "../redis/clock.ts";
import type { Partitioned } from "../redis/partition.ts";
import type { IngressPartition } from "./ingress-partition.ts";

/** Number of random ids that are tried. It finds the one open partition among 64. */
const TRIES = 1000;

type Admitting = Pick<IngressPartition, "durable" | "backpressure">;

/**
 * Whether this replica takes calls now. It ends in two steps: while it drains it is not ready but still takes requests,
 * because a load balancer sends them until it has noticed; once it is stopped it takes none.
 */
export class Admission {
  readonly #partitions: Partitioned<Admitting>;
  #state: "open" | "draining" | "stopped" = "open";

  constructor(partitions: Partitioned<Admitting>) {
    this.#partitions = partitions;
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

  /**
   * Throws `service.draining`, `service.starting` or `queue.*` while calls, or those of this job, cannot be taken: in the partition of a call
   * whose id is known, else in any of them.
   */
  assertOpen(job?: string, callId?: string): void {
    if (this.#state === "stopped")
      throw new AppError("service.draining", { reason: "the gateway is shutting down" });
    assertTakes(callId === undefined ? this.#anyFor(job) : this.#partitions.of(callId), job);
  }

  #anyFor(job: string | undefined): Admitting {
    const { all, control } = this.#partitions;
    return all.length === 1 ? control : (all.find((each) => takes(each, job)) ?? control);
  }

  /** A random id, in a partition that takes calls of this job now if there is one. */
  newCallId(ids: JobIds): string {
    let id = randomCallId();
    if (this.#partitions.all.length === 1) return id;
    const job = jobKey(ids);
    for (let tries = 1; tries < TRIES && !takes(this.#partitions.of(id), job); tries++) id = randomCallId();
    return id;
  }

  /** Throws `queue.overloaded` while too many callbacks of one partition wait for a receiver that a request names. */
  assertReceiverOpen(receiver: string): void {
    for (const { backpressure } of this.#partitions.all) backpressure.assertRoomAt(receiver);
  }

  /**
   * Not ready only for this replica's own reasons: its Redis, its drain, its start. Backpressure and silent workers are the
   * same for every replica, so they are only reported. With one partition that can be used it is ready.
   */
  readiness(): Readiness {
    const { all, control } = this.#partitions;
    const found = all.map(checkOf);
    const clock = clockCheck(...all.map(({ durable }) => durable.redis));
    const checks = { ...partitionChecks(found), durability: control.durable.mode, ...clock };
    return {
      ready: found.some(({ ok }) => ok) && !this.ending,
      checks: { ...checks, draining: this.ending },
    };
  }
}

function assertTakes({ durable, backpressure }: Admitting, job: string | undefined): void {
  durable.assertUsable();
  backpressure.assertRoom(job);
}

function takes(partition: Admitting, job: string | undefined): boolean {
  return explain(() => {
    assertTakes(partition, job);
    return "";
  }).ok;
}

function checkOf({ durable, backpressure }: Admitting) {
  const pressure = explain(() => {
    backpressure.assertRoom();
    return "none";
  });
  const checks = {
    writes: durable.fullReason ?? "taken",
    maxmemory_bytes: durable.isUsable ? durable.server().maxMemoryBytes : null,
    backpressure: pressure.text,
    workers_alive: backpressure.seen()?.workersAlive ?? null,
  };
  return { ...explain(() => durable.server().proof), checks };
}
