import { randomUUID } from "node:crypto";
import { AppError } from "../errors/app-error.ts";
import { type JobCall, storedBytes } from "../job-call/job-call.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Add, Claims } from "../queue/enqueue.ts";
import type { BeginWrite, RetryWrite } from "../redis/retry-write.ts";
import type { Clock } from "../time/clock.ts";

/** What the sender of a call is told: accepted now, or known before and in which state. */
export type Accepted = { replayed: boolean; status: "accepted" | "failed" | "discarded" };

type Deps = {
  add: Add;
  claims: Claims;
  /** Begins the deadline of one call. */
  beginWrite: BeginWrite;
  clock: Clock;
};

/** How a call that its sender can repeat is remembered. */
export type Repeat = {
  /** How long after its end. */
  windowMs: number;
  /** The hash that a repeat must have too; another one is a conflict. */
  bodySha256: string;
};

/** `repeat` is undefined for a call without a delivery id. */
export type Accept = (call: JobCall, repeat: Repeat | undefined) => Promise<Accepted>;

/**
 * Resolves once the call is on disk in Redis. A call with a delivery id is claimed first, so that a repeat within the window
 * is the same call. A repeat that finds only the claim adds the call again under the same id, since the first add may have
 * been lost. Throws `call.conflict` and the `queue.*` codes.
 */
export function createAccept({ add, claims, beginWrite, clock }: Deps): Accept {
  async function acceptOnce(call: JobCall, repeat: Repeat, write: RetryWrite): Promise<Accepted> {
    const { windowMs, bodySha256 } = repeat;
    const by = randomUUID();
    failpoint("gateway.before_claim");
    const claim = await write(() => claims.claim(call.id, bodySha256, { windowMs, now: clock(), by }));
    failpoint("gateway.after_claim");
    if (claim.kind === "conflict") {
      throw new AppError("call.conflict", { reason: `${call.id} is known with another body` });
    }
    if (claim.kind === "known" && claim.state !== "CLAIMED") return toKnown(claim.state);
    await write((lane) => add(call, lane), storedBytes(call));
    failpoint("gateway.after_add");
    await write(() => claims.markQueued(call.id, clock()));
    failpoint("gateway.after_queued");
    return { replayed: claim.kind === "known", status: "accepted" };
  }

  return async function accept(call, repeat) {
    const write = beginWrite(storedBytes(call));
    try {
      if (repeat !== undefined) return await acceptOnce(call, repeat, write);
      await write((lane) => add(call, lane), storedBytes(call));
      failpoint("gateway.after_add");
      return { replayed: false, status: "accepted" };
    } catch (error) {
      throw withAdvice(error, repeat !== undefined);
    }
  };
}

function toKnown(state: "QUEUED" | "FAILED" | "INJECTED" | "DISCARDED"): Accepted {
  switch (state) {
    case "FAILED":
      return { replayed: true, status: "failed" };
    case "DISCARDED":
      return { replayed: true, status: "discarded" };
    case "QUEUED":
    case "INJECTED":
      return { replayed: true, status: "accepted" };
  }
}

/** Tells the sender of a call with an unknown outcome what sending it again would do. */
function withAdvice(error: unknown, hasDeliveryId: boolean): unknown {
  if (!(error instanceof AppError) || error.code !== "queue.outcome_unknown") return error;
  const { message: reason, retryAfterMs = 2000 } = error;
  const publicDetail = hasDeliveryId
    ? "Whether the call was queued is unknown; sent again under its delivery id it is the same call."
    : "Whether the call was queued is unknown; sent again it may run twice, since it has no delivery id.";
  return new AppError("queue.outcome_unknown", { reason, publicDetail, retryAfterMs, cause: error });
}
