import type { Origin } from "../call/origin.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { text } from "../redis/reply.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";
import readDepthLua from "./read-depth.lua";
import type { Depth } from "./registry.ts";

/**
 * Number and stored size of the calls in all queues of one origin. The gateway of this origin reads these sums, and accepts
 * no further call while one of them exceeds its limit (shared/ingress/backpressure.ts).
 */
export type OriginDepth = Depth & {
  /** Stored size of the calls of all origins, including failed calls. */
  bytes: number;
  /**
   * For each job, the time (unix ms) when the oldest call without an attempt began to wait. The gateway refuses calls of a
   * job whose calls wait too long. A paused job and calls that wait for a retry are left out, because they do not wait for
   * lack of capacity.
   */
  untriedSince: ReadonlyMap<string, number>;
  callbacks: CallbackBytes;
};

/** Stored size of the callbacks of all jobs, including failed callbacks. */
type CallbackBytes = {
  bytes: number;
  /** Bytes of each receiver that has more than `FEW_BYTES`. */
  byReceiver: ReadonlyMap<string, number>;
};

/** Size in bytes of about a dozen callbacks. Only receivers whose callbacks take more than this are listed. */
const FEW_BYTES = 16_384;

/** Time for which Redis caches a depth. Fifty gateways that read it then cost Redis only as much as one. */
const KEPT_MS = 500;

/** The oldest call without an attempt is searched for among this many calls at the head of a queue. */
const SCANNED_MAX = 10;

const READ = defineScript({
  source: readDepthLua,
  keys: "registry, kept, bytes",
  args: "prefix, origin",
  constants: { CALLBACKS_GATE, FEW_BYTES, KEPT_MS, SCANNED_MAX },
  proof: "expendable",
  reply: text,
});

type StoredDepth = Omit<OriginDepth, "untriedSince" | "callbacks"> & {
  untried: Record<string, number>;
  callbacks: number;
  receivers: Record<string, number>;
};

/** Creates the function that reads the depth of all queues of one origin together. The depth may be half a second old. */
export function createReadDepth(
  { redis, keys, prefix }: Partition,
  origin: Origin,
): () => Promise<OriginDepth> {
  const read = READ.on(redis);
  const touched = { registry: keys.queues, kept: keys.depth(origin), bytes: keys.bytes };
  return async () => {
    const found = JSON.parse(await read(touched, { prefix, origin })) as StoredDepth;
    const { untried, oldestSince, callbacks, receivers, ...counts } = found;
    return {
      ...counts,
      oldestSince,
      untriedSince: new Map(Object.entries(untried)),
      callbacks: { bytes: callbacks, byReceiver: new Map(Object.entries(receivers)) },
    };
  };
}
