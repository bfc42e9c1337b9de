import { readReceiver } from "../call/callback-target.ts";
import type { JobCall } from "../call/job-call.ts";
import { idsOfKey, type JobIds, jobKeyOf, whyNoJobKey } from "../call/job-ids.ts";
import { JOB_ORIGINS, ORIGINS } from "../call/origin.ts";

/**
 * BullMQ's name of a queue, as in the registry: `<origin>/<service id>/<job index>`. A queue of callbacks is named
 * `callback/<service id>/<job index>/<receiver>`.
 */
export type QueueName = string;

/** Returns the queue for a call of this job and origin. */
export function queueOf({ origin, service_id, job_id }: Pick<JobCall, "origin" | "service_id" | "job_id">) {
  return `${origin}/${jobKeyOf({ service_id, job_id })}`;
}

/** Returns the queue for callbacks to a receiver about calls of a job. */
export function callbackQueueOf(job: string, receiver: string): QueueName {
  return `${OF_CALLBACKS}${job}/${receiver}`;
}

const OF_CALLBACKS = "callback/";

/** Returns the origin of a queue. It may be an origin that this release does not know. */
export function originOf(queue: QueueName): string {
  return queue.slice(0, queue.indexOf("/"));
}

export function isOfCallbacks(queue: QueueName): boolean {
  return queue.startsWith(OF_CALLBACKS);
}

/** Returns the key of the queue's job, `<service id>/<job index>`. */
export function jobOf(queue: QueueName): string {
  return isOfCallbacks(queue) ? queue.split("/", 3).slice(1).join("/") : queue.slice(queue.indexOf("/") + 1);
}

/**
 * Returns the name of the queue's gate (frame.lua). This is the key of the job, or `callback/<receiver>` for callbacks,
 * because a receiver's capacity does not depend on the job.
 */
export function gateOf(queue: QueueName): string {
  return isOfCallbacks(queue) ? gateOfReceiver(receiverOfQueue(queue)) : queue.slice(queue.indexOf("/") + 1);
}

/** The gate that applies to every receiver of callbacks, in addition to the receiver's own gate. */
export const CALLBACKS_GATE = "callback";

export function gateOfReceiver(receiver: string): string {
  return `${OF_CALLBACKS}${receiver}`;
}

/**
 * Parses the name of a gate as an operator writes it: `7/1`, `callback` or `callback/<receiver>`. Returns the name under
 * which the gate is stored. Every command that pauses by name must use this function. Producers look only for the stored
 * form, so a pause under another form of the name would have no effect.
 */
export function readGate(text: string): { gate: string } | { problem: string } {
  if (text === CALLBACKS_GATE) return { gate: text };
  const named = receiverOfGate(text);
  if (named === undefined) {
    const problem = whyNoJobKey(text);
    return problem === undefined ? { gate: text } : { problem };
  }
  const read = readReceiver(named);
  return "problem" in read ? read : { gate: gateOfReceiver(read.receiver) };
}

/** Returns the receiver of a gate; undefined if the gate belongs to a job. */
export function receiverOfGate(gate: string): string | undefined {
  return gate.startsWith(OF_CALLBACKS) ? gate.slice(OF_CALLBACKS.length) : undefined;
}

function receiverOfQueue(queue: QueueName): string {
  return queue.split("/").slice(3).join("/");
}

/** Returns the service id and the job index of the queue's job. */
export function jobIdsOf(queue: QueueName): JobIds {
  return idsOfKey(jobOf(queue));
}

/** Returns the queues of a job, one for each origin that this release knows. */
export function queuesOf(job: string): QueueName[] {
  return JOB_ORIGINS.map((origin) => `${origin}/${job}`);
}

/** Returns whether this release knows the queue's origin. A producer does not take calls of an unknown origin. */
export function isKnown(queue: QueueName): boolean {
  return (ORIGINS as readonly string[]).includes(originOf(queue));
}

/** Fields that identify the call and its job in every event. */
export function callFields(callId: string, queue: QueueName) {
  const { serviceId, jobIndex: jobId } = jobIdsOf(queue);
  const ofCallback = isOfCallbacks(queue) ? { receiver: receiverOfQueue(queue) } : undefined;
  return { callId, origin: originOf(queue), serviceId, jobId, ...ofCallback };
}
