import { readReceiver } from "../call/callback-target.ts";
import type { JobCall } from "../call/job-call.ts";
import { idsOfKey, type JobIds, jobKeyOf, whyNoJobKey } from "../call/job-ids.ts";
import { JOB_ORIGINS, ORIGINS } from "../call/origin.ts";

/**
 * BullMQ's name of a queue, as it stands in the registry: `<origin>/<service id>/<job index>`, or of callbacks
 * `callback/<service id>/<job index>/<receiver>`.
 */
export type QueueName = string;

/** The queue that the call of a job goes to. */
export function queueOf({ origin, service_id, job_id }: Pick<JobCall, "origin" | "service_id" | "job_id">) {
  return `${origin}/${jobKeyOf({ service_id, job_id })}`;
}

/** The queue of the callbacks that tell a receiver of the calls of a job. */
export function callbackQueueOf(job: string, receiver: string): QueueName {
  return `${OF_CALLBACKS}${job}/${receiver}`;
}

const OF_CALLBACKS = "callback/";

/** The origin may be one that this release does not know. */
export function originOf(queue: QueueName): string {
  return queue.slice(0, queue.indexOf("/"));
}

export function isOfCallbacks(queue: QueueName): boolean {
  return queue.startsWith(OF_CALLBACKS);
}

/** The key of the queue's job, `<service id>/<job index>`. */
export function jobOf(queue: QueueName): string {
  return isOfCallbacks(queue) ? queue.split("/", 3).slice(1).join("/") : queue.slice(queue.indexOf("/") + 1);
}

/**
 * The gate that the queue's calls go through (frame.lua): that of its job, or of callbacks `callback/<receiver>`, since what a receiver
 * can bear has nothing to do with the job.
 */
export function gateOf(queue: QueueName): string {
  return isOfCallbacks(queue) ? gateOfReceiver(receiverOfQueue(queue)) : queue.slice(queue.indexOf("/") + 1);
}

/** The gate of all callbacks together. */
export const CALLBACKS_GATE = "callback";

export function gateOfReceiver(receiver: string): string {
  return `${OF_CALLBACKS}${receiver}`;
}

/**
 * Reads the name of a gate as an operator writes it, `7/1`, `callback` or `callback/<receiver>`, into the form that the gate is stored
 * under. Every pause by name goes through here: under another form it would pause nothing.
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

/** Whose gate this is; undefined if it is not a receiver's. */
export function receiverOfGate(gate: string): string | undefined {
  return gate.startsWith(OF_CALLBACKS) ? gate.slice(OF_CALLBACKS.length) : undefined;
}

function receiverOfQueue(queue: QueueName): string {
  return queue.split("/").slice(3).join("/");
}

/** The two ids of the queue's job. */
export function jobIdsOf(queue: QueueName): JobIds {
  return idsOfKey(jobOf(queue));
}

/** The queues of a job, one for each origin that this release knows. */
export function queuesOf(job: string): QueueName[] {
  return JOB_ORIGINS.map((origin) => `${origin}/${job}`);
}

/** A producer leaves the calls of a queue with an unknown origin. */
export function isKnown(queue: QueueName): boolean {
  return (ORIGINS as readonly string[]).includes(originOf(queue));
}

/** Which call of which job, in every event. */
export function callFields(callId: string, queue: QueueName) {
  const { serviceId, jobIndex: jobId } = jobIdsOf(queue);
  const ofCallback = isOfCallbacks(queue) ? { receiver: receiverOfQueue(queue) } : undefined;
  return { callId, origin: originOf(queue), serviceId, jobId, ...ofCallback };
}
