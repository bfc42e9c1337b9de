import { type JobCall, jobKeyOf, ORIGINS } from "../job-call/job-call.ts";
import { idsOfKey, type JobIds } from "../job-call/job-ids.ts";

/** `<origin>/<service id>/<job index>`: BullMQ's name of a queue, as it stands in the registry. */
export type QueueName = string;

/** The queue that a call goes to. */
export function queueOf({ origin, service_id, job_id }: Pick<JobCall, "origin" | "service_id" | "job_id">) {
  return `${origin}/${jobKeyOf({ service_id, job_id })}`;
}

/** The origin may be one that this release does not know. */
export function originOf(queue: QueueName): string {
  return queue.slice(0, queue.indexOf("/"));
}

/** The key of the queue's job, `<service id>/<job index>`. */
export function jobOf(queue: QueueName): string {
  return queue.slice(queue.indexOf("/") + 1);
}

/** The two ids of the queue's job. */
export function jobIdsOf(queue: QueueName): JobIds {
  return idsOfKey(jobOf(queue));
}

/** The queues of a job, one for each origin that this release knows. */
export function queuesOf(job: string): QueueName[] {
  return ORIGINS.map((origin) => `${origin}/${job}`);
}

/** Calls of an origin that only a newer release knows wait for that release. */
export function isKnown(queue: QueueName): boolean {
  return (ORIGINS as readonly string[]).includes(originOf(queue));
}

/** Which call of which job, in every event. */
export function callFields(callId: string, queue: QueueName) {
  const { serviceId, jobIndex: jobId } = jobIdsOf(queue);
  return { callId, origin: originOf(queue), serviceId, jobId };
}
