import type { Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { PREFIX } from "../redis/keys.ts";

/** Whether a call lies in its queue: waiting, delayed, active or failed. */
export async function isQueued(redis: Redis, origin: Origin, callId: string): Promise<boolean> {
  return (await redis.exists(`${PREFIX}:${origin}:${callId}`)) === 1;
}
