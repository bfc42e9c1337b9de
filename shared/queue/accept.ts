import { AppError } from "../errors/app-error.ts";
import type { JobCall } from "../job-call/job-call.ts";
import { nothingHappens, type Reached } from "../lifecycle/crash-point.ts";
import type { Clock } from "../time/clock.ts";
import type { CallRecords } from "./call-record.ts";
import type { Add } from "./enqueue.ts";

/** What the sender of a call is told: accepted now, or known before and in which state. */
export type Accepted = { replayed: boolean; status: "accepted" | "parked" | "discarded" };

type Deps = {
  add: Add;
  records: CallRecords;
  untilKnown: <Result>(write: () => Promise<Result>) => Promise<Result>;
  clock: Clock;
  reached?: Reached;
};

export type Accept = (call: JobCall, dedupe: { windowMs: number } | undefined) => Promise<Accepted>;

/**
 * Resolves once the call is on disk in Redis. A call with evidence (`dedupe`) is claimed first, so that a repeat within
 * the window is the same call; a repeat that finds a claim whose add may have been lost adds again under the same id.
 * Throws `call.conflict` and the `queue.*` codes.
 */
export function createAccept({ add, records, untilKnown, clock, reached = nothingHappens }: Deps): Accept {
  return async function accept(call, dedupe) {
    if (dedupe === undefined) {
      await untilKnown(() => add(call));
      reached("gateway.after_add");
      return { replayed: false, status: "accepted" };
    }
    reached("gateway.before_claim");
    const claim = await untilKnown(() =>
      records.claim(call.id, call.sha256, { windowMs: dedupe.windowMs, now: clock() }),
    );
    reached("gateway.after_claim");
    if (claim.kind === "conflict") {
      throw new AppError("call.conflict", { reason: `${call.id} is known with another body` });
    }
    if (claim.kind === "known" && claim.state !== "CLAIMED") return toKnown(claim.state);
    await untilKnown(() => add(call));
    reached("gateway.after_add");
    await untilKnown(() => records.toQueued(call.id, clock()));
    reached("gateway.after_queued");
    return { replayed: claim.kind === "known", status: "accepted" };
  };
}

function toKnown(state: "QUEUED" | "PARKED" | "INJECTED" | "DISCARDED"): Accepted {
  switch (state) {
    case "PARKED":
      return { replayed: true, status: "parked" };
    case "DISCARDED":
      return { replayed: true, status: "discarded" };
    case "QUEUED":
    case "INJECTED":
      return { replayed: true, status: "accepted" };
  }
}
