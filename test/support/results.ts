import type { ResultLimits } from "../../shared/call/results/result.ts";
import { createTellProgress } from "../../shared/call/results/store.ts";
import { createDeliverResult } from "../../shared/call-search/deliver-result.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";

/** As `[results]` has them by default. */
export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};

/** A worker of `openBackends` that holds what it takes for a minute. */
export const WORK = { name: "worker", lockDuration: 60_000, stalledInterval: 60_000, results: RESULT_LIMITS };

type Looked = Pick<Partition, "redis">;
type ForCalls<Args extends unknown[], Answer> = (id: string, ...rest: Args) => Answer;

/** Does the work in the partition of each call. */
function forCalls<Args extends unknown[], Answer>(
  { redis }: Looked,
  on: (partition: Partition) => ForCalls<Args, Answer>,
): ForCalls<Args, Answer> {
  const each = partitionsOver(redis).map(on);
  return (id, ...rest) => each.of(id)(id, ...rest);
}

export const deliverResultOn = (at: Looked) =>
  forCalls(at, (partition) => createDeliverResult(partition, RESULT_LIMITS));
export const tellProgressOn = (at: Looked) =>
  forCalls(at, (partition) => createTellProgress(partition, RESULT_LIMITS));
