import type { IncomingMessage, ServerResponse } from "node:http";
import { type JobIds, jobKey } from "../../../shared/call/job-ids.ts";
import { assertDeclared, readBody } from "../../../shared/http/body.ts";
import type { BodyBudget } from "../../../shared/http/body-budget.ts";
import type { PermissionAnswer } from "../../../shared/openapi/x402-answers.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { routeOfPayer } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { createFairLimit } from "../fair-limit.ts";
import { assertOffered, type Catalog, type Job } from "../offer/catalog.ts";
import { assertInputs, findCallByQuote } from "../offer/operator-quote.ts";
import type { CallerNonces } from "../payment/caller-nonces.ts";
import { type CheckParts, PaymentCheck } from "../payment/check.ts";
import { hasPayment } from "../payment/header.ts";
import { type AssertFits, createAssertFits } from "../payment/input-check.ts";
import type { KnownPayments } from "../payment/known-payments.ts";
import { refusedClaim } from "../payment/outcome.ts";
import type { ClientKeyOf, PaidRequest, PaidRequests } from "../payment/paid-request.ts";
import type { AuthorizedCaller } from "../policy/caller-policy.ts";

type Deps = CheckParts & {
  catalog: Catalog;
  paidRequests: PaidRequests;
  knownPayments: KnownPayments;
  journals: Partitioned<Pick<PaymentJournal, "countOpen" | "findQuoted">>;
  callerNonces: Pick<CallerNonces, "isUsed">;
  bodies: BodyBudget;
  clientKeyOf: ClientKeyOf;
};

/**
 * POST …/auth-dry-run: checks whether a client could buy the job. The answer is a permission, or the refusal that the paid route
 * would send. If the request has a payment, the dry-run makes all checks of the paid route, but does not claim the payment.
 * Without a payment, it makes the checks that need none. It charges nothing and uses up no nonce. It reads the body only if a
 * check needs it.
 */
export class DryRun {
  readonly #deps: Deps;
  readonly #dryRuns = createFairLimit(DRY_RUNS);
  readonly #assertFits: AssertFits;
  readonly #paymentCheck: PaymentCheck;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#assertFits = createAssertFits(deps.clock, { isPaid: false });
    const mode = { takesBody, runFairly: this.#dryRuns.within };
    this.#paymentCheck = new PaymentCheck({ ...deps, assertFits: this.#assertFits, mode });
  }

  async answer(req: IncomingMessage, res: ServerResponse, ids: JobIds): Promise<PermissionAnswer> {
    const { catalog, callerNonces } = this.#deps;
    const caller: AuthorizedCaller | undefined = hasPayment(req)
      ? await this.#tryPayment(req, res, ids)
      : await this.#tryCaller(req, res, ids);
    if (caller?.nonce !== undefined && (await callerNonces.isUsed(caller.nonce.hash))) {
      throw refusedClaim("nonce_used");
    }
    return {
      allowed: true,
      mode: catalog.find(ids)?.policy.mode,
      ...(caller !== undefined && { caller: caller.address }),
    };
  }

  async #tryPayment(req: IncomingMessage, res: ServerResponse, ids: JobIds) {
    const request = this.#deps.paidRequests.read(req, res, ids);
    return this.#tryRead(request).finally(request.release);
  }

  async #tryRead(request: PaidRequest) {
    const { knownPayments, journals, x402 } = this.#deps;
    const known = await knownPayments.find(request);
    if (known !== undefined) {
      // The payment has already bought a call, and the paid route would repeat its answer. So the dry-run permits it.
      await knownPayments.outcome(known, request.isGone);
      return undefined;
    }
    assertDeclared(request.req, x402.body_limit_bytes);
    const { caller, job } = await this.#paymentCheck.check(request);
    await this.#assertQuoteUnused(job);
    const { payer } = request.signed;
    if ((await journals.of(routeOfPayer(payer)).countOpen(payer)) >= x402.open_payments_per_payer)
      throw refusedClaim("too_many_open");
    return caller;
  }

  async #tryCaller(req: IncomingMessage, res: ServerResponse, ids: JobIds) {
    const { requestedJobs, admission, x402, bodies, clientKeyOf, callerPolicy } = this.#deps;
    const job = requestedJobs.jobOf(req, ids);
    assertOffered(job);
    admission.assertOpen(jobKey(ids));
    assertPayerNotNeeded(job);
    await this.#assertQuoteUnused(job);
    assertDeclared(req, x402.body_limit_bytes);
    if (!takesBody(job)) return undefined;
    const lease = bodies.lease(req);
    try {
      const body = await readBody(req, res, x402.body_limit_bytes, { lease });
      if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
      const clientKey = clientKeyOf(req);
      this.#assertFits(job, body, clientKey);
      const callerRequest = { job, req, body, payer: NO_PAYER, clientKey } as const;
      return await this.#dryRuns.within(clientKey, () => callerPolicy.authorize(callerRequest));
    } finally {
      lease.release();
    }
  }

  async #assertQuoteUnused({ operatorQuote }: Job): Promise<void> {
    if (operatorQuote === undefined) return;
    const usedBy = await findCallByQuote(operatorQuote, this.#deps.journals);
    if (usedBy !== undefined) throw refusedClaim("quote_used");
  }
}

/** Dry-runs cost a client nothing, so they get only a small share of the capacity of nodes, contracts and facilitators. */
const DRY_RUNS = {
  max: 16,
  waitingMax: 64,
  waitMs: 5000,
  what: "dry-runs",
  code: "payment.unavailable",
} as const;

/** Whether a check needs the body: the caller's proof, the operator's quote or the job's input schema. */
function takesBody({ policy, operatorQuote, input }: Job): boolean {
  const isSignedByCaller =
    policy.mode === "restricted_paid" && policy.authMode === "delegated_caller_signature";
  return isSignedByCaller || operatorQuote !== undefined || input !== undefined;
}

/**
 * Placeholder for the payer in a dry-run without a payment. It has no effect, because a job whose policy depends on the payer is
 * refused before (`assertPayerNotNeeded`).
 */
const NO_PAYER = "0x0000000000000000000000000000000000000000";

function assertPayerNotNeeded({ policy }: Job): void {
  if (policy.mode !== "restricted_paid" || policy.authMode !== "payer_is_caller") return;
  throw new AppError("payment.required", {
    reason: "the caller is the payer, and there is no payment",
    publicDetail: "the caller of this job is its payer: send a payment header; it is not charged here",
  });
}
