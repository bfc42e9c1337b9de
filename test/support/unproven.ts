import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Prover } from "../../shared/redis/prover.ts";

const fail = (): Promise<never> =>
  Promise.reject(
    new AppError("queue.outcome_unknown", { reason: "the replicas have not confirmed a write" }),
  );

/** No write is ever confirmed by the replicas. */
export const unproven: Prover = {
  run: fail,
  confirm: fail,
  check: fail,
  replicas: () => ({}),
  over: () => unproven,
};
