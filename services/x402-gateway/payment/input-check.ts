import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Mismatch } from "../../../shared/platform/json-schema/json-schema.ts";
import { createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Job } from "../offer/catalog.ts";

/** The body is not what the job takes. */
export class UnfitInput extends AppError {
  readonly mismatch: Mismatch;

  constructor(mismatch: Mismatch) {
    const detail = `the body does not match the job's input schema: ${mismatch.pointer} ${mismatch.what}`;
    super("request.input_invalid", { reason: detail, publicDetail: detail });
    this.mismatch = mismatch;
  }
}

/** A check that takes longer is counted: it costs its sender nothing, and keeps all others waiting. */
const SLOW_MS = 20;
const PER_MINUTE = { ofAddress: 30, ofAll: 60 } as const;

export type AssertFits = (job: Job, body: Uint8Array, clientKey: string) => void;

/**
 * Throws `request.input_invalid` if the job declares its input and the body does not fit, and `request.rate_limited` if the address has
 * sent many bodies that took long to check; unless `isPaid`, that is a payer with the money has sent each, also if all addresses have.
 */
export function createAssertFits(clock: Clock, { isPaid }: { isPaid: boolean }): AssertFits {
  const allowance = (perMinute: number, publicDetail: string) =>
    createAllowance({ perMinute, what: "slow checks of bodies", publicDetail, clock });
  const ofAddress = allowance(PER_MINUTE.ofAddress, "too many bodies from this address were slow to check");
  const ofAll = allowance(PER_MINUTE.ofAll, "too many bodies of dry runs were slow to check");

  function use(clientKey: string): () => void {
    const useOwn = () => ofAddress.use(clientKey);
    return isPaid ? useOwn() : useBoth(useOwn, () => ofAll.use("all"));
  }

  return ({ input }, body, clientKey) => {
    if (input === undefined) return;
    const release = use(clientKey);
    const begun = performance.now();
    const mismatch = input.mismatch(body);
    if (performance.now() - begun < SLOW_MS) release();
    if (mismatch !== undefined) throw new UnfitInput(mismatch);
  };
}
