import { sha256Hex } from "../../../shared/crypto/compare.ts";
import { toAppError } from "../../../shared/errors/app-error.ts";
import { type Allowance, createAllowance, useBoth } from "../../../shared/lifecycle/allowance.ts";
import { createShortCache, keepFailures } from "../../../shared/lifecycle/short-cache.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { Unjudged, type VerifyPayment } from "../facilitator/pool.ts";
import type { AcceptedPayment } from "./header.ts";

/**
 * How many verifies a minute may end without a payment, for each payer and for each address; and how many questions to contracts, apart
 * from them: whoever has no money can ask these, and shares his address with others.
 */
export type UnpaidAllowances = { ofPayers: Allowance; ofAddresses: Allowance; ofSigners: Allowance };

export function createUnpaidAllowances(perPayer: number, perAddress: number, clock: Clock): UnpaidAllowances {
  const allowance = (perMinute: number, whose: string) =>
    createAllowance({
      perMinute,
      what: `verifies of ${whose}`,
      publicDetail: `too many payments of this ${whose} were verified and not made`,
      clock,
    });
  const ofSigners = createAllowance({
    perMinute: perAddress,
    what: "questions to contracts of address",
    publicDetail: "too many payments of this address were not signed by their payer's key, and not made",
    clock,
  });
  return { ofPayers: allowance(perPayer, "payer"), ofAddresses: allowance(perAddress, "address"), ofSigners };
}

type Options = {
  verifyPayment: VerifyPayment;
  allowances: Pick<UnpaidAllowances, "ofPayers" | "ofAddresses">;
  clock: Clock;
};

/** Who asks for a verify, and with what. */
export type Verifying = {
  request: FacilitatorRequest;
  signed: AcceptedPayment;
  /** Under which the client's address is counted. */
  party: string;
};

export type Verified = {
  /** The URL of the facilitator that said yes, which is the one to settle. */
  facilitator: string;
  /**
   * Its verify does not count any more: its payment has settled, or our journal has failed. A claim is not enough: keys can cancel and
   * contracts can change their mind before the settle. Twice does nothing.
   */
  giveBack(): void;
};

export type VerifyAtLimits = (verifying: Verifying) => Promise<Verified>;

/** For so long a refused payment is refused again without asking. */
const REFUSED_MS = 3000;

/**
 * Has a payment verified at a bounded cost for the facilitator: of one address the same one is verified once at a time, what is said
 * against it counts for some seconds, and payers and addresses whose verifies lead to no payment may have so many a minute, whether
 * these were answered or not. Throws what `verifyPayment` throws, and `request.rate_limited`.
 */
export function createVerifyAtLimits({ verifyPayment, allowances, clock }: Options): VerifyAtLimits {
  const { ofPayers, ofAddresses } = allowances;
  const verifies = createShortCache<Verified>({ keptMs: REFUSED_MS, keeps: keepFailures(isRefusal), clock });

  async function verify({ request, signed, party }: Verifying): Promise<Verified> {
    const { decoded, token, payer } = signed;
    const giveBack = useBoth(
      () => ofPayers.use(payer),
      () => ofAddresses.use(party),
    );
    const network = decoded.version === 1 ? decoded.network : token.network;
    const facilitator = await verifyPayment(request, network, token, { payer, address: party }).catch(
      (error: unknown) => {
        if (!wasAsked(error)) giveBack();
        throw error;
      },
    );
    return { facilitator, giveBack };
  }

  return (verifying) => {
    const { request, signed, party } = verifying;
    const { x402Version, paymentPayload, paymentRequirements } = request;
    const asked = JSON.stringify([x402Version, paymentPayload, paymentRequirements]);
    const key = `${signed.callId} ${sha256Hex(Buffer.from(asked))} ${party}`;
    return verifies.get(key, () => verify(verifying));
  };
}

function isRefusal(error: unknown): boolean {
  return error instanceof Unjudged ? error.isOfRequest : toAppError(error).code === "payment.rejected";
}

/** Whether a facilitator was asked before the verify failed. What a payer writes can make any facilitator fail to answer. */
export function wasAsked(refusal: unknown): boolean {
  if (refusal instanceof Unjudged) return refusal.wasAsked;
  return toAppError(refusal).code !== "request.rate_limited";
}
