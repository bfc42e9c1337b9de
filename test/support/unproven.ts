import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Prover } from "../../shared/redis/prover.ts";

const fail = (): Promise<never> =>
  Promise.reject(
    new AppError("queue.outcome_unknown", { reason: "the replicas have not confirmed a write" }),
  );

/** A prover whose replicas never confirm a write. */
export const unproven: Prover = {
  run: fail,
  confirm: fail,
  check: fail,
  replicas: () => ({}),
  over: () => unproven,
};
