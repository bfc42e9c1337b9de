import { jobKey } from "../../../shared/call/job-ids.ts";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import { assertNotEncoded } from "../../../shared/http/content-coding.ts";
import type { Admission } from "../../../shared/ingress/admission.ts";
import type { CallbackAsked } from "../../../shared/ingress/read-callback.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import type { Job } from "../offer/catalog.ts";
import type { OfferSettings } from "../offer/offer.ts";
import { assertInputs, assertRequester } from "../offer/operator-quote.ts";
import type { RequestedJobs } from "../offer/requested-jobs.ts";
import type { AuthorizedCaller, CallerPolicy } from "../policy/caller-policy.ts";
import { AlreadySpent } from "./already-spent.ts";
import type { Chains, Since } from "./chains.ts";
import { ContractSigners } from "./contract-signer.ts";
import { type AcceptedPayment, inAcceptedToken } from "./header.ts";
import type { AssertFits } from "./input-check.ts";
import { assertWindow, type MatchedOffer, matchOffer } from "./match-offer.ts";
import type { PaidRequest } from "./paid-request.ts";
import { createUnpaidAllowances, Verifier, type Verifying, wasAsked } from "./unpaid-verifies.ts";

/** The differences between the paid route and the dry-run. */
export type CheckMode = {
  /** Whether the body of a request for this job is read. */
  takesBody: (job: Job) => boolean;
  /** Runs a check that asks the token's node, a contract or the facilitator, under the fair limit. */
  runFairly: <Result>(clientKey: string, work: () => Promise<Result>) => Promise<Result>;
};

export const PAID: CheckMode = { takesBody: () => true, runFairly: (_clientKey, work) => work() };

/** A new payment that nothing refuses, and what was found out on the way. */
export type Admitted = {
  kind: "admitted";
  signed: AcceptedPayment;
  job: Job;
  offer: MatchedOffer;
  body: Buffer;
  caller: AuthorizedCaller | undefined;
  /** The receiver of the call's end. */
  callback: CallbackAsked | undefined;
  /** The URL of the facilitator that said yes, which is the one to settle. */
  facilitator: string;
  since: Since;
};

/** The parts of a gateway that both checks use. */
export type CheckParts = {
  x402: X402Toml;
  requestedJobs: RequestedJobs;
  admission: Admission;
  chains: Chains;
  facilitators: Facilitators;
  callerPolicy: CallerPolicy;
  offerSettings: OfferSettings;
  clock: Clock;
  /** Redis', by which quotes are made and judged, and calls are dated. */
  redisTime: Clock;
};

type Deps = CheckParts & { assertFits: AssertFits; mode: CheckMode };

/** Its allowances are its own: what dry-runs use up of a payer's verifies is not missed by payments. */
export class PaymentCheck {
  readonly #deps: Deps;
  readonly #signers: ContractSigners;
  readonly #verifier: Verifier;

  constructor(deps: Deps) {
    const { x402, chains, facilitators, clock } = deps;
    const { unpaid_verifies_per_payer: perPayer, unpaid_verifies_per_address: perAddress } = x402;
    const allowances = createUnpaidAllowances(perPayer, perAddress, clock);
    const { contractChecks } = allowances;
    this.#deps = deps;
    this.#signers = new ContractSigners({ chains, contractChecks, clock });
    this.#verifier = new Verifier({ facilitators, allowances, clock });
  }

  /**
   * Everything that can refuse a new payment, in this order. None of it moves money. Whoever has no money, or has spent it, is refused
   * before the body is read and before anybody but the token's node is asked.
   */
  async check(paid: PaidRequest): Promise<Admitted> {
    const { x402, requestedJobs, admission, chains, assertFits, callerPolicy } = this.#deps;
    const { offerSettings, mode, clock, redisTime } = this.#deps;
    const { req, clientKey, verifiesTaken: taken } = paid;
    const job = requestedJobs.jobOf(req, paid.ids);
    admission.assertOpen(jobKey(paid.ids), paid.signed.callId);
    assertNotEncoded(req);
    const signed = inAcceptedToken(paid.signed);
    const { decoded, payer } = signed;
    const offer = matchOffer(signed, job, offerSettings, { quoteAt: redisTime(), windowAt: clock() });
    if (job.operatorQuote !== undefined) assertRequester(job.operatorQuote, payer);
    const moves =
      signed.isSignedByPayer ||
      (await mode.runFairly(clientKey, () => this.#signers.moves(signed, clientKey, taken)));
    // From here on a refusal looks again for what this payer has bought (`PayJob`).
    paid.signed.isSignedByPayer = true;
    // A contract that has no money does not move it either: that is the reason to be told.
    const since = await mode.runFairly(clientKey, () => chains.sinceOf(signed, clientKey));
    if (!moves) throw unmoved();
    const body = mode.takesBody(job) ? await paid.readBody(x402.body_limit_bytes) : NOTHING;
    if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
    assertFits(job, body, clientKey);
    return mode.runFairly(clientKey, async () => {
      const caller = await callerPolicy.authorize({ job, req, body, payer, clientKey });
      const verifying = { request: offer.request, signed, clientKey, taken };
      const facilitator = await this.#verifyUnspent(verifying);
      const unused = await this.#recent(since, verifying);
      assertWindow(decoded, offerSettings, clock());
      failpoint("x402.after_verify");
      const callback = requestedJobs.callbackFor(req, job);
      return { kind: "admitted", signed, job, offer, body, caller, callback, facilitator, since: unused };
    });
  }

  /** If the chain says meanwhile that the payment is used up, it does not matter what the facilitator says of it. */
  async #verifyUnspent(verifying: Verifying): Promise<string> {
    return this.#verifier.verify(verifying).catch(async (refusal) => {
      if (!wasAsked(refusal)) throw refusal;
      await this.#deps.chains.sinceOf(verifying.signed, verifying.clientKey).catch((error) => {
        if (error instanceof AlreadySpent) throw error;
      });
      throw refusal;
    });
  }

  /** Once more, if a body or a caller's contract took long. */
  async #recent(since: Since, { signed, clientKey }: Verifying): Promise<Since> {
    const { chains, clock } = this.#deps;
    return clock() - since.at <= UNUSED_MS ? since : chains.sinceOf(signed, clientKey);
  }
}

/** The payer has the money, and the contract that is to be deployed takes the signature. */
function unmoved(): AppError {
  const detail = "the token does not accept the signature of a contract that is not deployed yet";
  return AppError.public("payment.rejected", detail);
}

const UNUSED_MS = 2000;
const NOTHING = Buffer.alloc(0);
