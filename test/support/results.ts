import type { ResultLimits } from "../../shared/call/results/result.ts";
import { createStoreProgress } from "../../shared/call/results/store.ts";
import { createDeliverResult } from "../../shared/call-search/deliver-result.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";

/** Default values of `[results]`. */
export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};

/** Options of a worker of `openBackends` that holds a taken call for a minute. */
export const WORK = { name: "worker", lockDuration: 60_000, stalledInterval: 60_000, results: RESULT_LIMITS };

export const deliverResultOn = ({ redis }: Pick<Partition, "redis">) =>
  createDeliverResult(partitionOf(redis), RESULT_LIMITS);
export const tellProgressOn = ({ redis }: Pick<Partition, "redis">) =>
  createStoreProgress(partitionOf(redis), RESULT_LIMITS);
