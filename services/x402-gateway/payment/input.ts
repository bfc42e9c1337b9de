import { AppError } from "../../../shared/errors/app-error.ts";
import type { Mismatch } from "../../../shared/json-schema/json-schema.ts";
import { createAllowance } from "../../../shared/lifecycle/allowance.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import type { Job } from "../catalog.ts";

/** The body is not what the job takes. */
export class UnfitInput extends AppError {
  readonly mismatch: Mismatch;

  constructor(mismatch: Mismatch) {
    const detail = `the body does not fit the job's input schema: ${mismatch.pointer} ${mismatch.what}`;
    super("request.input_invalid", { reason: detail, publicDetail: detail });
    this.mismatch = mismatch;
  }
}

/** A check that takes longer counts for whoever has sent the body: it costs nothing, and keeps all others waiting. */
const SLOW_MS = 20;
const SLOW_PER_MINUTE = 30;

export type AssertFits = (job: Job, body: Uint8Array, party: string) => void;

/**
 * Throws `request.input_invalid` if the job declares its input and the body does not fit, and `request.rate_limited` if the address has
 * sent many bodies that took long to check.
 */
export function createAssertFits(clock: Clock): AssertFits {
  const slow = createAllowance({
    perMinute: SLOW_PER_MINUTE,
    what: "slow checks of bodies",
    publicDetail: "too many bodies of this address took long to check",
    clock,
  });
  return ({ input }, body, party) => {
    if (input === undefined) return;
    const giveBack = slow.use(party);
    const begun = performance.now();
    const mismatch = input.mismatch(body);
    if (performance.now() - begun < SLOW_MS) giveBack();
    if (mismatch !== undefined) throw new UnfitInput(mismatch);
  };
}
