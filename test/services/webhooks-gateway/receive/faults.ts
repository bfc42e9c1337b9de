import type { Fault, UsedRedisProxy } from "../../../fixtures/redis-proxy.ts";

/** Calls of the first endpoint have random ids, and those of the second one have ids made from the delivery id. */
export const endpoints = [
  { path: "/random", job_id: 1, auth: "none" },
  { path: "/evidence", job_id: 1, auth: "none", idempotency_header: "X-Id" },
];

type Fits = (words: readonly string[]) => boolean;

/** Matches the script that adds calls to their queues. */
export const isAdd: Fits = (words) =>
  /^eval/i.test(words[0] ?? "") && words.some((word) => word.startsWith('{"id":"c_'));

/**
 * Applies the fault to the first `times` matching commands. Returns a function that counts how often it was applied.
 */
export function applyFault(proxy: UsedRedisProxy, fits: Fits, fault: Fault, times = 1): () => number {
  let left = times;
  proxy.onCommand = (words) => {
    if (left === 0 || !fits(words)) return undefined;
    left -= 1;
    return fault;
  };
  return () => times - left;
}
