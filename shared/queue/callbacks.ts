import {
  type Callback,
  type CallbackEvent,
  callbackId,
  type Ending,
  type Failure,
} from "../call/callback.ts";
import type { CallHead, JobCall } from "../call/job-call.ts";
import { jobKeyOf } from "../call/job-ids.ts";
import { sha256Hex } from "../platform/crypto/compare.ts";
import {
  callbackQueueOf,
  gateOf,
  isOfCallbacks,
  jobIdsOf,
  jobOf,
  originOf,
  type QueueName,
} from "./queue-name.ts";

/*
 * The script that ends a call also queues its callback, so no callback is lost, and none is sent for a call that has not
 * ended. This file prepares the callback for that script, as JSON:
 *
 * - `{"queue", "gate", "call.completed": [id, call], "call.failed": [id, call]}`:
 *   The complete callback for each possible end, as a stored call.
 * - `{"job", "id", "data"}`:
 *   The callback of a failed call that the producer could not read. It has no receiver yet. The script finds the receiver
 *   in the stored call, and adds it.
 *
 * While a producer fails a call, the prepared callback is stored in BullMQ's hash of that call. If the runner will deliver
 * the result later, it is stored in the field `cb` of the call's record.
 */

/** A prepared callback as JSON. */
export type PreparedCallback = string;

/** Field for the prepared callback in BullMQ's hash of a call that is being failed. */
export const PREPARED_FIELD = "callback";

/** Minimum retention time of a record that holds a callback until the runner delivers the result. */
export const AWAITED_KEEP_MS = 30 * 86_400_000;

/** Prepares the callback of a call that ends at time `at` (unix ms). `failure` is set if Postern fails the call. */
export function prepareCallback(call: CallHead, at: number, failure?: Failure): PreparedCallback | undefined {
  const { callback: to, id, origin, traceparent } = call;
  if (to === undefined) return undefined;
  const queue = callbackQueueOf(jobKeyOf(call), to.receiver);
  const written = (type: Ending) => {
    const event = { type, call_id: id, origin, ...(failure && { failure }), to };
    return [callbackId(id, type), JSON.stringify(toCall(call, at, event, traceparent))];
  };
  const [completed, failed] = [written("call.completed"), written("call.failed")];
  return JSON.stringify({ queue, gate: gateOf(queue), "call.completed": completed, "call.failed": failed });
}

/**
 * Prepares the callback of a failed call without reading the call. It is used if the call could not be read, or must not be
 * read again because processes died with it.
 */
export function prepareUnread(
  { id, queue }: { id: string; queue: QueueName },
  at: number,
  failure: Failure,
): PreparedCallback | undefined {
  if (isOfCallbacks(queue)) return undefined;
  const { serviceId, jobIndex } = jobIdsOf(queue);
  const event = { type: "call.failed", call_id: id, origin: originOf(queue), failure, to: null } as const;
  const call = toCall({ service_id: serviceId, job_id: jobIndex }, at, event);
  return JSON.stringify({ job: jobOf(queue), id: callbackId(id, "call.failed"), data: JSON.stringify(call) });
}

const NO_BODY = { body: "", bytes: 0, sha256: sha256Hex(Buffer.alloc(0)) } as const;

/**
 * Content of a callback. `to` is null if the producer could not read the call. The script that ends the call then sets `to`.
 */
type PreparedEvent = Omit<CallbackEvent, "to"> & { to: Callback | null };

function toCall(
  { service_id, job_id }: Pick<JobCall, "service_id" | "job_id">,
  at: number,
  event: PreparedEvent,
  traceparent?: string,
): Omit<JobCall, "told"> & { told: PreparedEvent } {
  return {
    id: callbackId(event.call_id, event.type),
    origin: "callback",
    service_id,
    job_id,
    metadata: {},
    ...NO_BODY,
    accepted_at: at,
    ...(traceparent !== undefined && { traceparent }),
    told: event,
  };
}
