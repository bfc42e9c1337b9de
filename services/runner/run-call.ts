import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import type { Reached } from "../../shared/lifecycle/crash-point.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { type CallStore, requestOf } from "./call-store.ts";
import type { Execute } from "./execute.ts";
import type { Leases } from "./leases.ts";
import { type LongStore, storedAnswer } from "./long-store.ts";
import type { Offer } from "./offer.ts";
import { type HttpAnswer, isSuccess } from "./router.ts";
import { untilStored } from "./until-stored.ts";

export type Outcome = {
  readonly answer: HttpAnswer;
  readonly kind: "finished" | "failed" | "stored" | "replayed";
};

type Deps = {
  calls: CallStore;
  longStore: LongStore;
  /** Long calls wait to be taken. */
  wake: () => void;
  leases: Leases;
  execute: Execute;
  /** Aborted when this runner ends, whatever is open. */
  ended: AbortSignal;
  log: Logger;
  reached: Reached;
};

export type RunCall = (offer: Offer) => Promise<Outcome>;

/**
 * Runs an offered call, or answers it from memory. A call that succeeded is never run again while it is remembered; one
 * that runs, here or under another runner's lease, is `runner.busy`. Of a call it began, this runner knows by itself
 * until the end is on disk, so that no lapse of a lease makes it begin the same call twice.
 */
export function createRunCall({ calls, longStore, wake, leases, execute, ended, log, reached }: Deps) {
  const underway = new Map<string, { request: string; done: Promise<Outcome> }>();

  async function runShort(offer: Offer): Promise<Outcome> {
    const answer = await execute(offer.job, offer).catch((error: unknown) =>
      forget(offer, toAppError(error)),
    );
    if (!isSuccess(answer)) {
      await recordFailure(
        offer,
        { code: "runner.handler_failed", reason: `answered ${answer.status}` },
        answer.status,
      );
      return { answer, kind: "failed" };
    }
    const first = await untilStored(() => calls.finish(offer, answer), {
      log,
      callId: offer.callId,
      signal: ended,
    });
    reached("runner.after_remembered");
    return { answer: first, kind: "finished" };
  }

  async function storeLong(offer: Offer): Promise<Outcome> {
    try {
      offer.job.prepare(offer);
    } catch (error) {
      return forget(offer, toAppError(error));
    }
    const answer = storedAnswer(offer.callId);
    const stored = await longStore
      .store(offer, answer)
      .catch((error: unknown) => forget(offer, toUnavailable(error)));
    if (!stored) throw busy(offer.callId);
    reached("runner.after_stored");
    wake();
    return { answer, kind: "stored" };
  }

  async function forget({ callId }: Offer, error: AppError): Promise<never> {
    await recordFailure({ callId }, { code: error.code, reason: error.message }, CODES[error.code].status);
    throw error;
  }

  /** A failure that cannot be recorded needs no second try: the lease lapses, and the next offer runs the call. */
  async function recordFailure(
    { callId }: Pick<Offer, "callId">,
    why: { code: string; reason: string },
    status: number,
  ) {
    await calls.fail(callId, { ...why, status }).catch((error: unknown) => {
      log.warn("job.store_delayed", { callId, reason: messageOf(error) });
    });
  }

  async function begin(offer: Offer): Promise<Outcome> {
    const begun = await calls.begin(offer).catch((error: unknown) => Promise.reject(toUnavailable(error)));
    if (begun.kind === "answered") return { answer: begun.answer, kind: "replayed" };
    if (begun.kind === "running") throw busy(offer.callId);
    if (begun.kind === "reused") throw reused(offer.callId);
    reached("runner.after_begin");
    leases.hold(offer.callId);
    return await (offer.job.long ? storeLong(offer) : runShort(offer)).finally(() =>
      leases.drop(offer.callId),
    );
  }

  const runCall: RunCall = async (offer) => {
    const { callId } = offer;
    const request = requestOf(offer);
    const here = underway.get(callId);
    if (here !== undefined) throw here.request === request ? busy(callId) : reused(callId);
    const done = begin(offer).finally(() => underway.delete(callId));
    underway.set(callId, { request, done });
    return await done;
  };

  /** Resolves when nothing that was begun is open. */
  async function idle(): Promise<void> {
    await Promise.allSettled([...underway.values()].map(({ done }) => done));
  }

  return { runCall, idle };
}

function busy(callId: string): AppError {
  return new AppError("runner.busy", { reason: `${callId} is running`, retryAfterMs: 1000 });
}

function reused(callId: string): AppError {
  const detail = "the Idempotency-Key stands for another job or other bytes";
  return new AppError("runner.key_reused", { reason: `${detail}: ${callId}`, publicDetail: detail });
}

function toUnavailable(cause: unknown): AppError {
  return new AppError("runner.store_unavailable", { reason: messageOf(cause), retryAfterMs: 2000, cause });
}
