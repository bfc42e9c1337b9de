import type { Limits } from "../../shared/gateway/backpressure.ts";

/** Limits that no test reaches by chance. */
export const AMPLE: Limits = {
  queueDepthMax: 1e6,
  queueBytesMax: 1e12,
  oldestAgeMsMax: undefined,
  redisMemoryRatioMax: 0.85,
  callbackReceiversMax: 100,
};
