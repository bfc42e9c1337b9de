import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { type Allowance, createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/platform/lifecycle/short-cache.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { type Facilitators, Unjudged } from "../facilitator/pool.ts";
import type { AcceptedPayment } from "./header.ts";

/**
 * How many verifies a minute may end without a payment, for each payer and for each address; and how many questions to contracts, apart
 * from them: whoever has no money can ask these, and shares his address with others.
 */
export type UnpaidAllowances = { perPayer: Allowance; perAddress: Allowance; perSigner: Allowance };

export function createUnpaidAllowances(perPayer: number, perAddress: number, clock: Clock): UnpaidAllowances {
  const allowance = (perMinute: number, whose: string) =>
    createAllowance({
      perMinute,
      what: `verifies of ${whose}`,
      publicDetail: `too many payments of this ${whose} were verified but not made`,
      clock,
    });
  const perSigner = createAllowance({
    perMinute: perAddress,
    what: "contract checks of address",
    publicDetail: "too many payments from this address were not signed by the payer's key, and were not made",
    clock,
  });
  return { perPayer: allowance(perPayer, "payer"), perAddress: allowance(perAddress, "address"), perSigner };
}

/** Who asks for a verify, and with what. */
export type Verifying = {
  request: FacilitatorRequest;
  signed: AcceptedPayment;
  /** Under which the client's address is counted. */
  clientKey: string;
  /**
   * Gets what gives this verify back, whether the answer was yes or no: to be called if the payment is settled, by whichever replica, or
   * if our journal has failed. A claim is not enough: keys can cancel and contracts can change their mind before the settle.
   */
  taken: (() => void)[];
};

type Verified = {
  /** The URL of the facilitator that said yes. */
  facilitator: string;
  release(): void;
};

/** For so long a refused payment is refused again without asking. */
const REFUSED_MS = 3000;

type Deps = {
  facilitators: Facilitators;
  allowances: Pick<UnpaidAllowances, "perPayer" | "perAddress">;
  clock: Clock;
};

/**
 * Has payments verified at a bounded cost for the facilitator: of one address the same one is verified once at a time, what is said
 * against it counts for some seconds, and payers and addresses whose verifies lead to no payment may have so many a minute, whether
 * these were answered or not.
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
   * Returns the URL of the facilitator that said yes, which is the one to settle. Throws what `Facilitators.verify` throws, and
   * `request.rate_limited`.
   */
  async verify(verifying: Verifying): Promise<string> {
    const { request, signed, clientKey } = verifying;
    const { x402Version, paymentPayload, paymentRequirements } = request;
    const asked = JSON.stringify([x402Version, paymentPayload, paymentRequirements]);
    const key = `${signed.callId} ${sha256Hex(Buffer.from(asked))} ${clientKey}`;
    const { facilitator, release } = await this.#verifies.get(key, () => this.#ask(verifying));
    verifying.taken.push(release);
    return facilitator;
  }

  async #ask({ request, signed, clientKey, taken }: Verifying): Promise<Verified> {
    const { facilitators, allowances } = this.#deps;
    const { decoded, token, payer } = signed;
    const release = useBoth(
      () => allowances.perPayer.use(payer),
      () => allowances.perAddress.use(clientKey),
    );
    const network = decoded.version === 1 ? decoded.network : token.network;
    const offered = { scheme: token.scheme, network, token };
    const facilitator = await facilitators
      .verify(request, offered, { payer, address: clientKey })
      .catch((error: unknown) => {
        if (wasAsked(error)) taken.push(release);
        else release();
        throw error;
      });
    return { facilitator, release };
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof Unjudged ? error.isOfRequest : toAppError(error).code === "payment.rejected";
}

/** Whether a facilitator was asked before the verify failed. What a payer writes can make any facilitator fail to answer. */
export function wasAsked(refusal: unknown): boolean {
  if (refusal instanceof Unjudged) return refusal.wasAsked;
  return toAppError(refusal).code !== "request.rate_limited";
}
