import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Mismatch } from "../../../shared/platform/json-schema/json-schema.ts";
import { createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Job } from "../offer/catalog.ts";

/** Error of a body that does not match the job's input schema. */
export class UnfitInput extends AppError {
  readonly mismatch: Mismatch;

  constructor(mismatch: Mismatch) {
    const detail = `the body does not match the job's input schema: ${mismatch.pointer} ${mismatch.what}`;
    super("request.input_invalid", { reason: detail, publicDetail: detail });
    this.mismatch = mismatch;
  }
}

/**
 * A check of a body that takes longer than this counts as slow. A slow check costs the sender nothing, but delays all other
 * requests of this process.
 */
const SLOW_MS = 20;
const PER_MINUTE = { perAddress: 30, inTotal: 60 } as const;

export type AssertFits = (job: Job, body: Uint8Array, clientKey: string) => void;

/**
 * Creates the check of a body against its job's input schema. It throws `request.input_invalid` if the body does not match, and
 * `request.rate_limited` if the client's address has sent too many bodies that were slow to check. Without `isPaid`, there is
 * also a limit for all addresses together. With `isPaid`, each body comes from a payer who has the money, so that limit is not
 * needed.
 */
export function createAssertFits(clock: Clock, { isPaid }: { isPaid: boolean }): AssertFits {
  const allowance = (perMinute: number, publicDetail: string) =>
    createAllowance({ perMinute, what: "slow checks of bodies", publicDetail, clock });
  const perAddress = allowance(PER_MINUTE.perAddress, "too many bodies from this address were slow to check");
  const inTotal = allowance(PER_MINUTE.inTotal, "too many bodies of dry runs were slow to check");

  function use(clientKey: string): () => void {
    const useOwn = () => perAddress.use(clientKey);
    return isPaid ? useOwn() : useBoth(useOwn, () => inTotal.use("all"));
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
