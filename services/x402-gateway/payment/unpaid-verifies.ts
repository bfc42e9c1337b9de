import { type FacilitatorRequest, requestText } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { type Allowance, createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { type Facilitators, Unjudged } from "../facilitator/pool.ts";
import type { GasSponsoring } from "../schemes/scheme.ts";
import type { AcceptedPayment } from "./header.ts";

/**
 * Limits per minute, for each payer and each client address, on verifications of payments that are not made in the end.
 * Calls of a payer's contract have a limit of their own. A client without money can cause them, and must not use up the
 * verifications of other clients with its address. The check of an approval counts as a contract call, because the token may call
 * the payer's contract for it.
 */
export type UnpaidAllowances = { perPayer: Allowance; perAddress: Allowance; contractChecks: Allowance };

export function createUnpaidAllowances(perPayer: number, perAddress: number, clock: Clock): UnpaidAllowances {
  const allowance = (perMinute: number, whose: string) =>
    createAllowance({
      perMinute,
      what: `verifies of ${whose}`,
      publicDetail: `too many payments of this ${whose} were verified but not made`,
      clock,
    });
  const contractChecks = createAllowance({
    perMinute: perAddress,
    what: "contract checks of address",
    publicDetail: "too many payments from this address needed a check by a contract, and were not made",
    clock,
  });
  return {
    perPayer: allowance(perPayer, "payer"),
    perAddress: allowance(perAddress, "address"),
    contractChecks,
  };
}

/** A payment to verify, and facts about the client's request that brings it. */
export type VerificationTask = {
  request: FacilitatorRequest;
  signed: AcceptedPayment;
  /** Extension that the request uses, so the facilitator must support it. */
  extension: GasSponsoring | undefined;
  /** Rate-limit key of the client's address. */
  clientKey: string;
  /**
   * Functions that each refund this verification, or a contract call, to the allowances that it used up. They are added even if
   * the payment is refused. They must be called once any replica has settled the payment, or if the journal has failed. They must
   * not be called after a mere claim: until the payment is settled, the payer can cancel the authorization, and the payer's
   * contract can reject the signature.
   */
  refunds: (() => void)[];
};

type Verified = {
  /** URL of the facilitator that judged the payment valid. */
  facilitator: string;
  release(): void;
};

/** A refused payment is refused again for this long, without another verification. */
const REFUSED_MS = 3000;

type Deps = {
  facilitators: Facilitators;
  allowances: Pick<UnpaidAllowances, "perPayer" | "perAddress">;
  clock: Clock;
};

/**
 * Asks facilitators to verify payments, and limits how many verify requests a client can cause. Concurrent requests from one
 * address for the same payment share one verification. A refusal is cached for some seconds. A verification counts against the
 * payer and the client's address, unless its payment is made.
 */
export class Verifier {
  readonly #deps: Deps;
  readonly #verifies;

  constructor(deps: Deps) {
    this.#deps = deps;
    const keeps = keepFailures(isRefusal);
    this.#verifies = createShortCache<Verified>({ keptMs: REFUSED_MS, keeps, clock: deps.clock });
  }

  /**
   * Resolves with the URL of the facilitator that judged the payment valid. The same facilitator must settle it. Throws the
   * errors of `Facilitators.verify`, and `request.rate_limited`.
   */
  async verify(task: VerificationTask): Promise<string> {
    const { request, signed, clientKey } = task;
    const requestHash = sha256Hex(Buffer.from(requestText(request)));
    const key = `${signed.callId} ${requestHash} ${clientKey}`;
    const { facilitator, release } = await this.#verifies.get(key, () => this.#requestVerification(task));
    task.refunds.push(release);
    return facilitator;
  }

  async #requestVerification({
    request,
    signed,
    extension,
    clientKey,
    refunds,
  }: VerificationTask): Promise<Verified> {
    const { facilitators, allowances } = this.#deps;
    const { decoded, token, payer } = signed;
    const release = useBoth(
      () => allowances.perPayer.use(payer),
      () => allowances.perAddress.use(clientKey),
    );
    const network = decoded.version === 1 ? decoded.network : token.network;
    const offered = { scheme: token.scheme, network, extension, token };
    const facilitator = await facilitators
      .verify(request, offered, { payer, address: clientKey })
      .catch((error: unknown) => {
        if (wasSent(error)) refunds.push(release);
        else release();
        throw error;
      });
    return { facilitator, release };
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof Unjudged ? error.isOfRequest : toAppError(error).code === "payment.rejected";
}

/**
 * Whether a facilitator was called before the verification failed. If so, the verification still counts against the payer and the
 * address. Otherwise a client could cause any number of verify requests with payments whose content makes the facilitator fail.
 */
export function wasSent(refusal: unknown): boolean {
  if (refusal instanceof Unjudged) return refusal.wasSent;
  return toAppError(refusal).code !== "request.rate_limited";
}
