import { jobKey } from "../../../shared/call/job-ids.ts";
import type { X402Toml } from "../../../shared/config/x402-toml.ts";
import { assertNotEncoded } from "../../../shared/http/content-coding.ts";
import type { Admission } from "../../../shared/ingress/admission.ts";
import type { ChosenCallback } from "../../../shared/ingress/read-callback.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Allowance } from "../../../shared/platform/lifecycle/allowance.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Facilitators } from "../facilitator/pool.ts";
import { gasSponsoringsOf, type Job } from "../offer/catalog.ts";
import type { OfferSettings } from "../offer/offer.ts";
import { assertInputs, assertRequester } from "../offer/operator-quote.ts";
import type { RequestedJobs } from "../offer/requested-jobs.ts";
import type { AuthorizedCaller, CallerPolicy } from "../policy/caller-policy.ts";
import { readApproval, withApproval } from "../schemes/gas-sponsoring.ts";
import { AlreadySpent } from "./already-spent.ts";
import type { ChainCheck, Chains } from "./chains.ts";
import { ContractSigners } from "./contract-signer.ts";
import { type AcceptedPayment, inAcceptedToken } from "./header.ts";
import type { AssertFits } from "./input-check.ts";
import { assertWindow, type MatchedOffer, matchOffer } from "./match-offer.ts";
import type { PaidRequest } from "./paid-request.ts";
import { createUnpaidAllowances, type VerificationTask, Verifier, wasSent } from "./unpaid-verifies.ts";

/** Differences between the checks of the paid route and those of the dry-run, which only checks whether a client could buy. */
export type CheckMode = {
  /** Whether the body of a request for this job is read. */
  takesBody: (job: Job) => boolean;
  /** Runs a check that calls the token's node, a contract or the facilitator. The dry-run puts such checks under a fair limit. */
  runFairly: <Result>(clientKey: string, work: () => Promise<Result>) => Promise<Result>;
};

export const PAID_MODE: CheckMode = { takesBody: () => true, runFairly: (_clientKey, work) => work() };

/** A new payment that passed all checks, with the facts that they found. */
export type Admitted = {
  kind: "admitted";
  signed: AcceptedPayment;
  job: Job;
  offer: MatchedOffer;
  body: Buffer;
  caller: AuthorizedCaller | undefined;
  /** Receiver of the message that reports the call's end. */
  callback: ChosenCallback | undefined;
  /** URL of the facilitator that judged the payment valid. The same facilitator must settle it. */
  facilitator: string;
  chainCheck: ChainCheck;
};

/** Parts of a gateway that the checks of the paid route and of the dry-run share. */
export type CheckParts = {
  x402: X402Toml;
  requestedJobs: RequestedJobs;
  admission: Admission;
  chains: Chains;
  facilitators: Facilitators;
  callerPolicy: CallerPolicy;
  offerSettings: OfferSettings;
  clock: Clock;
  /** Clock of Redis. It decides whether a quote has expired, and dates calls. */
  redisTime: Clock;
};

type Deps = CheckParts & { assertFits: AssertFits; mode: CheckMode };

/**
 * Makes all checks of a new payment. Some checks cost a request to a facilitator or a node. Allowances limit how many such checks
 * a payer or an address may cause per minute if they do not pay in the end. The dry-run route has its own instance of this class,
 * so that dry-runs do not use up the allowances of payments.
 */
export class PaymentCheck {
  readonly #deps: Deps;
  readonly #contractChecks: Allowance;
  readonly #signers: ContractSigners;
  readonly #verifier: Verifier;

  constructor(deps: Deps) {
    const { x402, chains, facilitators, clock } = deps;
    const { unpaid_verifies_per_payer: perPayer, unpaid_verifies_per_address: perAddress } = x402;
    const allowances = createUnpaidAllowances(perPayer, perAddress, clock);
    const { contractChecks } = allowances;
    this.#deps = deps;
    this.#contractChecks = contractChecks;
    this.#signers = new ContractSigners({ chains, contractChecks, clock });
    this.#verifier = new Verifier({ facilitators, allowances, clock });
  }

  /**
   * Makes all checks that can refuse a new payment. None of them moves money. The body is read only after the check on the chain,
   * which refuses a payer without money or with a spent authorization. So a client needs money to make the gateway read its body.
   * Until then, only the token's node is called. If the payer is a contract, that call includes the check of its signature.
   */
  async check(paid: PaidRequest): Promise<Admitted> {
    const { x402, requestedJobs, admission, assertFits, callerPolicy } = this.#deps;
    const { offerSettings, mode, clock, redisTime } = this.#deps;
    const { req, clientKey, verificationRefunds: refunds } = paid;
    const job = requestedJobs.jobOf(req, paid.ids);
    admission.assertOpen(jobKey(paid.ids), paid.signed.callId);
    assertNotEncoded(req);
    const signed = this.#withApproval(inAcceptedToken(paid.signed));
    const { decoded, payer } = signed;
    const offer = matchOffer(signed, job, offerSettings, { quoteAt: redisTime(), windowAt: clock() });
    if (job.operatorQuote !== undefined) assertRequester(job.operatorQuote, payer);
    const isTransferable =
      signed.isSignedByPayer ||
      (await mode.runFairly(clientKey, () => this.#signers.isTransferable(signed, clientKey, refunds)));
    // The payer's signature is confirmed. If this payment is refused after this line, `PayJob` also searches for earlier
    // purchases of this payer under the same identifier.
    paid.signed.isSignedByPayer = true;
    // This check comes before the next line, because it refuses a payer without money. If the payer is also a contract that is
    // not deployed yet, the missing money is the more useful reason.
    const chainCheck = await mode.runFairly(clientKey, () =>
      this.#checkOnChain({ signed, clientKey, refunds }),
    );
    if (!isTransferable) throw untransferable();
    const body = mode.takesBody(job) ? await paid.readBody(x402.body_limit_bytes) : EMPTY_BODY;
    if (job.operatorQuote !== undefined) assertInputs(job.operatorQuote, body);
    assertFits(job, body, clientKey);
    return mode.runFairly(clientKey, async () => {
      const caller = await callerPolicy.authorize({ job, req, body, payer, clientKey });
      const request = withApproval(offer.request, chainCheck.approval);
      const task = { request, signed, extension: chainCheck.approval?.name, clientKey, refunds };
      const facilitator = await this.#verifyUnspent(task);
      const renewed = await this.#renewIfOld(chainCheck, task);
      assertWindow(decoded, offerSettings, clock());
      failpoint("x402.after_verify");
      const callback = requestedJobs.callbackFor(req, job);
      const approvedOffer = { ...offer, request };
      const findings = { body, caller, callback, facilitator, chainCheck: renewed };
      return { kind: "admitted", signed, job, offer: approvedOffer, ...findings };
    });
  }

  /**
   * Adds the approval of Permit2 that the client has sent with the payment, if a facilitator supports the extension in which it
   * was sent.
   */
  #withApproval(signed: AcceptedPayment): AcceptedPayment {
    const { token, payer, decoded } = signed;
    const names = gasSponsoringsOf(token, (kind) => this.#deps.facilitators.supports(kind));
    return { ...signed, approval: readApproval(decoded.raw, names, { payer, asset: token.asset }) };
  }

  /**
   * Asks a facilitator to verify the payment. If the verification fails, the chain is read again: the payment may have been used
   * up since the first check. In that case the client gets this reason, not the facilitator's.
   */
  async #verifyUnspent(task: VerificationTask): Promise<string> {
    return this.#verifier.verify(task).catch(async (refusal) => {
      if (!wasSent(refusal)) throw refusal;
      await this.#checkOnChain(task).catch((error) => {
        if (error instanceof AlreadySpent) throw error;
      });
      throw refusal;
    });
  }

  /**
   * Repeats the check on the chain if its result is over two seconds old. It gets that old if the body, the caller's contract or
   * the facilitator took long.
   */
  async #renewIfOld(chainCheck: ChainCheck, task: VerificationTask): Promise<ChainCheck> {
    return this.#deps.clock() - chainCheck.at <= CHAIN_CHECK_MS ? chainCheck : this.#checkOnChain(task);
  }

  #checkOnChain({
    signed,
    clientKey,
    refunds,
  }: Pick<VerificationTask, "signed" | "clientKey" | "refunds">): Promise<ChainCheck> {
    const countApproval = () => void refunds.push(this.#contractChecks.use(clientKey));
    return this.#deps.chains.checkOnChain(signed, { clientKey, countApproval });
  }
}

/**
 * Returns the error for a payer whose contract is not deployed yet, even if it has enough money. The signature is valid for the
 * future contract (ERC-6492), but the token cannot verify it.
 */
function untransferable(): AppError {
  const detail = "the token does not accept the signature of a contract that is not deployed yet";
  return AppError.public("payment.rejected", detail);
}

const CHAIN_CHECK_MS = 2000;
const EMPTY_BODY = Buffer.alloc(0);
