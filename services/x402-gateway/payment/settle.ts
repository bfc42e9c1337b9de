import { randomUUID } from "node:crypto";
import { AppError } from "../../../shared/errors/app-error.ts";
import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import type { Claimed } from "../../../shared/payments/claim.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type {
  FacilitatorRequest,
  NewPayment,
  Payment,
  Settlement,
} from "../../../shared/payments/payment.ts";
import { toSettlement } from "../../../shared/payments/terms.ts";
import type { RetryWrite } from "../../../shared/redis/retry-write.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { Finish, Settled } from "./finish.ts";
import { outcomeUnknown } from "./outcome.ts";

/** The reconciler looks at a payment this soon after its claim, lest the request that claimed it has died. */
const FIRST_LOOK_MS = 3000;

export type TakeDeps = {
  journal: PaymentJournal;
  facilitators: Facilitators;
  finish: Finish;
  beginWrite: () => RetryWrite;
  openMax: number;
  /** A facilitator's refusal to settle counts as the end of the payment: there is no chain to ask. */
  trustFacilitator: boolean;
  clock: Clock;
  log: Logger;
};

/**
 * The part of a paid request in which money moves. Everything that could refuse has been asked before `claim`; after
 * `settle` has begun nothing refuses, and what is not known is said to be unknown.
 */
export function createTakePayment(deps: TakeDeps) {
  const { journal, finish, beginWrite, openMax, clock } = deps;

  /** The whole call is on disk when this resolves, or the payment was known before. */
  async function claim(payment: NewPayment): Promise<{ kind: "new" } | { kind: "known"; id: string }> {
    const by = randomUUID();
    const now = clock();
    const write = beginWrite();
    const claimed = await write(() =>
      journal.claim(payment, { now, by, openMax, dueAt: now + FIRST_LOOK_MS }),
    ).catch((cause) => {
      throw isUnknown(cause)
        ? outcomeUnknown(payment.call.id, "whether the payment was claimed is unknown", cause)
        : cause;
    });
    failpoint("x402.after_claim");
    if (claimed.kind === "new" || claimed.kind === "known") return claimed;
    throw refusedClaim(claimed.kind);
  }

  /** Sends the settle request, and does all that follows from its answer. */
  async function settle(payment: NewPayment): Promise<Settled> {
    const claimed = toClaimed(payment, clock());
    const settlement = await askToSettle(deps, claimed, payment.request);
    const settled = { ...claimed, settlement };
    try {
      const write = beginWrite();
      if (!(await finish.settle(claimed, settlement, write)))
        throw new Error("it was ended otherwise meanwhile");
      await finish.enqueue(settled, write);
      return settled;
    } catch (cause) {
      throw outcomeUnknown(claimed.id, "the payment settled, and its call is still to be queued", cause);
    }
  }

  return { claim, settle };
}

/** A claim that may be on disk is one that any replica goes on with. */
function isUnknown(error: unknown): boolean {
  return error instanceof AppError && error.code === "queue.outcome_unknown";
}

export type TakePayment = ReturnType<typeof createTakePayment>;

/** Only success is an answer: whatever else is said proves nothing, unless the facilitator is trusted. */
async function askToSettle(
  deps: TakeDeps,
  payment: Payment,
  request: FacilitatorRequest,
): Promise<Settlement> {
  const { facilitators, journal, clock, log, trustFacilitator } = deps;
  const startedAt = clock();
  const outcome = await facilitators.settle(request, payment.facilitator);
  failpoint("x402.after_settle");
  const fields = { callId: payment.id, outcome: outcome.kind, ms: clock() - startedAt };
  if (outcome.kind === "settled") {
    log.info("payment.settle_answered", fields);
    return toSettlement(payment, { transaction: outcome.transaction, by: "facilitator" });
  }
  log.warn("payment.settle_answered", { ...fields, reason: outcome.reason });
  if (outcome.kind === "refused" && trustFacilitator) await endRefused(deps, payment, outcome.reason);
  await journal.lookAgain(payment.id, clock()).catch(() => {});
  throw outcomeUnknown(payment.id, `the facilitator's answer was ${outcome.kind}: ${outcome.reason}`);
}

/** Where the facilitator's word is the last: 402, but only once the end is on disk. */
async function endRefused(deps: TakeDeps, payment: Payment, reason: string): Promise<void> {
  const write = deps.beginWrite();
  const ended = write(() => deps.journal.void(payment, { reason }, { now: deps.clock() }));
  const found = await ended.catch((cause) => {
    throw outcomeUnknown(payment.id, "the facilitator refused, and that could not be written down", cause);
  });
  if (found !== "SETTLING" && found !== "VOID") return;
  throw new AppError("payment.rejected", { reason, publicDetail: `the facilitator says: ${reason}` });
}

/** The payment as its claim has just made it. */
function toClaimed(
  { call, terms, request, facilitator, sinceBlock, route, identifier, callerNonce }: NewPayment,
  now: number,
): Payment {
  return {
    id: call.id,
    state: "SETTLING",
    terms,
    call,
    request,
    facilitator,
    sinceBlock,
    dispatches: 1,
    dispatchedAt: now,
    claimedAt: now,
    changedAt: now,
    settlement: undefined,
    proven: false,
    reason: undefined,
    identifier,
    callerNonce: callerNonce?.hash,
    bodySha256: call.sha256,
    route,
  };
}

/** What a payer is told whose payment the claim would not take. */
export function refusedClaim(kind: Exclude<Claimed["kind"], "new" | "known">): AppError {
  switch (kind) {
    case "conflict":
      return new AppError("payment.conflict", {
        reason: "the payment was used for another request meanwhile",
      });
    case "identifier_conflict":
      return new AppError("payment.identifier_conflict", {
        reason: "the identifier is known with another request",
      });
    case "too_many_open":
      return new AppError("payment.too_many_open", {
        reason: "too many of the payer's payments are open",
        retryAfterMs: 5000,
      });
    case "nonce_used":
      return new AppError("caller.nonce_used", { reason: "the caller's nonce was used by another payment" });
    case "quote_used":
      return new AppError("quote.used", { reason: "the quote was used by another payment" });
  }
}
