import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Admission } from "../../../shared/gateway/admission.ts";
import { assertDeclared, readBody } from "../../../shared/http/body.ts";
import type { BodyBudget } from "../../../shared/http/body-budget.ts";
import { type JobIds, jobKey } from "../../../shared/job-call/job-ids.ts";
import { createFairLimit } from "../../../shared/lifecycle/fair-limit.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { assertOffered, type Catalog, type Job, type RequestedJob } from "../catalog.ts";
import { hasPayment } from "../payment/header.ts";
import type { AssertFits } from "../payment/input.ts";
import { assertInputs } from "../payment/operator-quote.ts";
import { type FindKnown, type KnownOutcome, refusedClaim } from "../payment/outcome.ts";
import type { AuthorizeCaller, AuthorizedCaller } from "../policy/caller.ts";
import type { CheckPayment, Manner, PartyOf, ReadPaidRequest } from "./pay-job.ts";

type Deps = {
  catalog: Catalog;
  requestedJob: RequestedJob;
  readPaidRequest: ReadPaidRequest;
  findKnown: FindKnown;
  knownOutcome: KnownOutcome;
  /** In this route's manner. */
  check: CheckPayment;
  manner: Manner;
  admission: Admission;
  /** As in `check`. */
  assertFits: AssertFits;
  authorizeCaller: AuthorizeCaller;
  journal: PaymentJournal;
  openMax: number;
  bodyBytesMax: number;
  bodies: BodyBudget;
  partyOf: PartyOf;
};

export type DryRun = ReturnType<typeof createDryRun>;

/**
 * POST …/auth-dry-run: whether this caller may buy the job, or the refusal that the paid route would answer with. With a
 * payment it makes all checks of the paid route and does not claim the payment; without one it makes those that need none.
 * It charges nothing and uses no nonce up, and it reads no body that nothing looks at.
 */
export function createDryRun(deps: Deps) {
  const { catalog, requestedJob, readPaidRequest, findKnown, knownOutcome, check } = deps;
  const { admission, assertFits, authorizeCaller, journal, openMax } = deps;
  const { bodyBytesMax, bodies, partyOf, manner } = deps;
  const { takesBody, inTurn } = manner;

  async function assertQuoteUnused({ operatorQuote }: Job): Promise<void> {
    if (operatorQuote === undefined) return;
    if ((await journal.findQuoted(operatorQuote.digest)) !== undefined) throw refusedClaim("quote_used");
  }

  async function tryPayment(req: IncomingMessage, res: ServerResponse, ids: JobIds) {
    const request = readPaidRequest(req, res, ids);
    return tryRead(request).finally(request.release);
  }

  async function tryRead(request: ReturnType<ReadPaidRequest>) {
    const known = await findKnown(request);
    if (known !== undefined) {
      // The paid route refuses a known payment no more: it gives it its own answer.
      await knownOutcome(known, request.isGone);
      return undefined;
    }
    assertDeclared(request.req, bodyBytesMax);
    const { caller, job } = await check(request);
    await assertQuoteUnused(job);
    if ((await journal.countOpen(request.signed.payer)) >= openMax) throw refusedClaim("too_many_open");
    return caller;
  }

  async function tryCaller(req: IncomingMessage, res: ServerResponse, ids: JobIds) {
    const job = requestedJob(req, ids);
    assertOffered(job);
    admission.assertOpen(jobKey(ids));
    assertPayerNotAsked(job);
    await assertQuoteUnused(job);
    assertDeclared(req, bodyBytesMax);
    if (!takesBody(job)) return undefined;
    const lease = bodies.lease(req);
    try {
      const body = await readBody(req, res, bodyBytesMax, { lease });
      if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
      const party = partyOf(req);
      assertFits(job, body, party);
      return await inTurn(party, () => authorizeCaller({ job, req, body, payer: NOBODY, party }));
    } finally {
      lease.release();
    }
  }

  return async function dryRun(req: IncomingMessage, res: ServerResponse, ids: JobIds) {
    const caller: AuthorizedCaller | undefined = hasPayment(req)
      ? await tryPayment(req, res, ids)
      : await tryCaller(req, res, ids);
    if (caller?.nonce !== undefined && (await journal.isNonceUsed(caller.nonce.hash))) {
      throw refusedClaim("nonce_used");
    }
    return {
      allowed: true,
      mode: catalog.find(ids)?.policy.mode,
      ...(caller !== undefined && { caller: caller.address }),
    };
  };
}

/** Beside those who pay, those who only try have little of the node's, the contracts' and the facilitators' time. */
const DRY_RUNS = {
  max: 16,
  waitingMax: 64,
  waitMs: 5000,
  what: "dry-runs",
  code: "payment.unavailable",
} as const;

export function createDryRunManner(): Manner {
  const dryRuns = createFairLimit(DRY_RUNS);
  return { takesBody, inTurn: dryRuns.within };
}

/** Whether the caller's proof, the operator's quote or the job's input schema is about the body. */
function takesBody({ policy, operatorQuote, input }: Job): boolean {
  const isSignedByCaller =
    policy.mode === "restricted_paid" && policy.authMode === "delegated_caller_signature";
  return isSignedByCaller || operatorQuote !== undefined || input !== undefined;
}

/** For policies that do not look at the payer. */
const NOBODY = "0x0000000000000000000000000000000000000000";

function assertPayerNotAsked({ policy }: Job): void {
  if (policy.mode !== "restricted_paid" || policy.authMode !== "payer_is_caller") return;
  throw new AppError("payment.required", {
    reason: "the caller is the payer, and there is no payment",
    publicDetail: "the caller of this job is its payer: send a payment header, which is not charged here",
  });
}
