import { Queue } from "bullmq";
import type { JobCall, Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { EVENTS_KEPT, JOB_NAME, JOB_OPTIONS, logErrors, QUEUE_OPTIONS } from "./protocol.ts";

/** Resolves once Redis has replied to the add; adding the same id again is a no-op while the call is queued. */
export type Add = (call: JobCall) => Promise<void>;

/** With the id's place in it, which makes the copy for each call cheap. */
const OPTIONS = { ...JOB_OPTIONS, jobId: "" };

/** Adds calls of one origin. For ingress: `redis` must fail fast (connectForRequests). */
export function createAdd(redis: Redis, origin: Origin, log: Logger): Add {
  const queue = new Queue<JobCall>(origin, { ...QUEUE_OPTIONS, connection: redis });
  logErrors(queue, { origin, log });
  keepFewEvents(redis, queue);
  return async (call) => {
    await queue.add(JOB_NAME, call, { ...OPTIONS, jobId: call.id });
  };
}

/** Says so whenever the connection is made: Redis may have been away, or emptied. */
function keepFewEvents(redis: Redis, queue: Queue<JobCall>): void {
  const say = (): void => {
    redis.hset(queue.toKey("meta"), "opts.maxLenEvents", EVENTS_KEPT).catch(() => {});
  };
  redis.on("ready", say);
  if (redis.status === "ready") say();
}
