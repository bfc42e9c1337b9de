import type { ResultLimits } from "../../shared/call/results/result.ts";
import { createTellProgress } from "../../shared/call/results/store.ts";
import { createDeliverResult } from "../../shared/call-search/deliver-result.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";

/** As `[results]` has them by default. */
export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};

/** A worker of `openBackends` that holds what it takes for a minute. */
export const WORK = { name: "worker", lockDuration: 60_000, stalledInterval: 60_000, results: RESULT_LIMITS };

export const deliverResultOn = ({ redis }: Pick<Partition, "redis">) =>
  createDeliverResult(partitionOf(redis), RESULT_LIMITS);
export const tellProgressOn = ({ redis }: Pick<Partition, "redis">) =>
  createTellProgress(partitionOf(redis), RESULT_LIMITS);
