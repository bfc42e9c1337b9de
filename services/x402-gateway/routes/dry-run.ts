import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import { readBody } from "../../../shared/http/read-body.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { AskedJob } from "../asked-job.ts";
import type { Catalog, Job } from "../catalog.ts";
import type { ConcurrencyLimit } from "../concurrency-limit.ts";
import { hasPayment } from "../payment/header.ts";
import { assertInputs } from "../payment/operator-quote.ts";
import type { KnownPayment } from "../payment/outcome.ts";
import { readSigned } from "../payment/read-signed.ts";
import { refusedClaim } from "../payment/settle.ts";
import type { AuthorizeCaller, AuthorizedCaller } from "../policy/caller.ts";
import { sendJson } from "../send-json.ts";
import { assertOffered } from "../sold-job.ts";
import type { Admit } from "./admit.ts";
import { findKnown } from "./find-known.ts";
import { readOnce } from "./read-once.ts";

type Deps = {
  catalog: Catalog;
  askedJob: AskedJob;
  journal: PaymentJournal;
  knownPayment: KnownPayment;
  assertOpen: () => void;
  paymentsInFlight: ConcurrencyLimit;
  admit: Admit;
  authorizeCaller: AuthorizeCaller;
  openMax: number;
  settings: { bodyBytesMax: number };
};

type Arrival = { req: IncomingMessage; res: ServerResponse; ids: JobIds };

/**
 * POST …/auth-dry-run: whether this caller may buy the job, or the refusal that the paid route would answer with. With a
 * payment all of the paid route's checks are made, and the payment is not claimed; without one those that need none.
 * Nothing is charged, and no nonce is used up.
 */
export function createDryRun(deps: Deps) {
  return async function dryRun(arrival: Arrival): Promise<void> {
    const { req, res, ids } = arrival;
    const caller = await deps.paymentsInFlight.within(() =>
      hasPayment(req) ? tryPayment(deps, arrival) : tryCaller(deps, arrival),
    );
    if (caller?.nonce !== undefined && (await deps.journal.isNonceUsed(caller.nonce.hash))) {
      throw refusedClaim("nonce_used");
    }
    sendJson(res, 200, {
      allowed: true,
      mode: deps.catalog.find(ids)?.policy.mode,
      ...(caller !== undefined && { caller: caller.address }),
    });
  };
}

/** A payment that is known has its own answer on the paid route, which refuses no more. */
async function tryPayment(deps: Deps, { req, res, ids }: Arrival): Promise<AuthorizedCaller | undefined> {
  const signed = readSigned(deps, req, ids);
  const arrival = { ids, signed, readBody: readOnce(req, res) };
  const known = await findKnown(deps, arrival);
  if (known !== undefined) {
    await deps.knownPayment.answerOf(known);
    return undefined;
  }
  const { caller, job } = await deps.admit(req, arrival);
  if (job.quote !== undefined && (await deps.journal.isQuoteUsed(job.quote.digest))) {
    throw refusedClaim("quote_used");
  }
  if ((await deps.journal.countOpen(signed.payer)) >= deps.openMax) {
    throw refusedClaim("too_many_open");
  }
  return caller;
}

async function tryCaller(deps: Deps, { req, res, ids }: Arrival): Promise<AuthorizedCaller | undefined> {
  const job = deps.askedJob(req, ids);
  assertOffered(job);
  deps.assertOpen();
  assertPayerNotAsked(job);
  const body = await readBody(req, res, deps.settings.bodyBytesMax);
  if (job.quote !== undefined) assertInputs(job.quote, body);
  return deps.authorizeCaller({ job, req, body, payer: NOBODY });
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
