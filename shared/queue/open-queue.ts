import { Queue } from "bullmq";
import type { JobCall, Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { QUEUE_OPTIONS } from "./protocol.ts";

/** An origin's queue, to look into and to operate on; opening it writes nothing. Redis' own errors reach the caller. */
export function openQueue(redis: Redis, origin: Origin): Queue<JobCall> {
  const queue = new Queue<JobCall>(origin, { ...QUEUE_OPTIONS, connection: redis });
  queue.on("error", () => {});
  return queue;
}
