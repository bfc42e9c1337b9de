import type { Fault, UsedRedisProxy } from "../../../fixtures/redis-proxy.ts";

/** Calls to the one have a random id; to the other, one that comes from their delivery id. */
export const endpoints = [
  { path: "/random", job_id: 1, auth: "none" },
  { path: "/evidence", job_id: 1, auth: "none", idempotency_header: "X-Id" },
];

type Fits = (words: readonly string[]) => boolean;

/** The script that adds calls to their queues. */
export const isAdd: Fits = (words) =>
  /^eval/i.test(words[0] ?? "") && words.some((word) => word.startsWith('{"id":"c_'));

/** Applies the fault to the first `times` commands that fit; returns how often it has struck. */
export function strike(proxy: UsedRedisProxy, fits: Fits, fault: Fault, times = 1): () => number {
  let left = times;
  proxy.onCommand = (words) => {
    if (left === 0 || !fits(words)) return undefined;
    left -= 1;
    return fault;
  };
  return () => times - left;
}
