import { randomCallId } from "../call/call-id.ts";
import { type JobIds, jobKey } from "../call/job-ids.ts";
import { explain, partitionChecks, type Readiness } from "../http/readiness.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { clockCheck } from "../redis/clock.ts";
import type { Partitioned } from "../redis/partition.ts";
import type { IngressPartition } from "./ingress-partition.ts";

/**
 * Limit on the random ids to try until one is in a partition that accepts calls. It is large enough even if only one of
 * 64 partitions does.
 */
const TRIES = 1000;

type AdmissionPartition = Pick<IngressPartition, "durable" | "backpressure">;

/**
 * Tells whether this replica of a gateway accepts calls now. The replica shuts down in two steps. While it drains, its
 * readiness probe fails, but it still accepts requests: a load balancer sends them until it notices the failed probe.
 * Once stopped, it accepts none.
 */
export class Admission {
  readonly #partitions: Partitioned<AdmissionPartition>;
  #state: "open" | "draining" | "stopped" = "open";

  constructor(partitions: Partitioned<AdmissionPartition>) {
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
   * Throws `service.draining`, `service.starting` or `queue.*` while no call can be accepted, or no call of this job.
   * With `callId`, the call's own partition must accept calls. Without it, the call can get an id in any partition
   * (`newCallId`), so one partition that accepts calls is enough.
   */
  assertOpen(job?: string, callId?: string): void {
    if (this.#state === "stopped")
      throw new AppError("service.draining", { reason: "the gateway is shutting down" });
    assertAcceptsCalls(callId === undefined ? this.#anyFor(job) : this.#partitions.of(callId), job);
  }

  #anyFor(job: string | undefined): AdmissionPartition {
    const { all, control } = this.#partitions;
    return all.length === 1 ? control : (all.find((each) => acceptsCalls(each, job)) ?? control);
  }

  /** Returns a random id in a partition that accepts calls of this job now, if there is such a partition. */
  newCallId(ids: JobIds): string {
    let id = randomCallId();
    if (this.#partitions.all.length === 1) return id;
    const job = jobKey(ids);
    for (let tries = 1; tries < TRIES && !acceptsCalls(this.#partitions.of(id), job); tries++)
      id = randomCallId();
    return id;
  }

  /** Throws `queue.overloaded` while too many callbacks wait for this receiver in any partition. */
  assertReceiverOpen(receiver: string): void {
    for (const { backpressure } of this.#partitions.all) backpressure.assertReceiverCapacity(receiver);
  }

  /**
   * Returns the readiness, for probes. The replica is not ready while it starts or shuts down, and while it can use no
   * partition of Redis. Backpressure and missing producers are only reported. They affect every replica alike, so a
   * load balancer could not avoid them by choosing another replica.
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

function assertAcceptsCalls({ durable, backpressure }: AdmissionPartition, job: string | undefined): void {
  durable.assertUsable();
  backpressure.assertCapacity(job);
}

function acceptsCalls(partition: AdmissionPartition, job: string | undefined): boolean {
  return explain(() => {
    assertAcceptsCalls(partition, job);
    return "";
  }).ok;
}

function checkOf({ durable, backpressure }: AdmissionPartition) {
  const pressure = explain(() => {
    backpressure.assertCapacity();
    return "none";
  });
  const checks = {
    writes: durable.fullReason ?? "taken",
    maxmemory_bytes: durable.isUsable ? durable.server().maxMemoryBytes : null,
    backpressure: pressure.text,
    workers_alive: backpressure.latest()?.workersAlive ?? null,
  };
  return { ...explain(() => durable.server().proof), checks };
}
