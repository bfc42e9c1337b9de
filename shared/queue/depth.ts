import type { Origin } from "../call/origin.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { text } from "../redis/reply.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";
import readDepthLua from "./read-depth.lua";
import type { Depth } from "./registry.ts";

/** The calls of one origin, for whoever may add more. */
export type OriginDepth = Depth & {
  /** What the calls of all origins take as stored, failed ones included. */
  bytes: number;
  /**
   * By job: since when (unix ms) the oldest call has waited that was never tried. A job that an operator has paused is not here, and
   * neither are calls that wait for a retry: no runner would end their wait any sooner.
   */
  untriedSince: ReadonlyMap<string, number>;
  callbacks: CallbackBytes;
};

/** What the callbacks of all jobs take as stored, failed ones included. */
type CallbackBytes = {
  bytes: number;
  /** Only the receivers that have more than a few callbacks. */
  byReceiver: ReadonlyMap<string, number>;
};

/** A receiver's callbacks below this are not told of: a dozen or so. */
const FEW_BYTES = 16_384;

/** How long all gateways are told the same, so that looking costs Redis the same with one gateway and with fifty. */
const KEPT_MS = 500;

/** Calls at the head of a queue that may be looked at to find one that was never tried. */
const LOOKED_AT = 10;

const READ = defineScript({
  source: readDepthLua,
  keys: "registry, kept, bytes",
  args: "prefix, origin",
  constants: { CALLBACKS_GATE, FEW_BYTES, KEPT_MS, LOOKED_AT },
  proof: "expendable",
  reply: text,
});

type StoredDepth = Omit<OriginDepth, "untriedSince" | "callbacks"> & {
  untried: Record<string, number>;
  callbacks: number;
  receivers: Record<string, number>;
};

/** Reads what all queues of one origin hold together. It may be half a second old. */
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
