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
 * A callback is queued by the script that ends its call, so that none is lost, and none sent for a call that has not ended. That script
 * gets it as it was prepared here, as JSON:
 *
 *   {"queue", "gate", "call.completed": [id, call], "call.failed": [id, call]}    for each way to end the whole call as stored
 *   {"job", "id", "data"}    of a call that nobody has read: where it is told stands only in what is stored of it
 *
 * It stands in BullMQ's hash of a call that is being failed, and as `cb` in the record of one whose result is still to be delivered.
 */

/** A callback as it was prepared. */
export type PreparedCallback = string;

/** The field of BullMQ's hash of a call that is being failed. */
export const PREPARED_FIELD = "callback";

/** A record waits at least so long for a delivery that ends the call, and so queues its callback. */
export const AWAITED_KEEP_MS = 30 * 86_400_000;

/** What ends a call with a callback, at this time (unix ms). `failure` if it is Postern that fails it. */
export function prepareCallback(call: CallHead, at: number, failure?: Failure): PreparedCallback | undefined {
  const { callback: to, id, origin, traceparent } = call;
  if (to === undefined) return undefined;
  const queue = callbackQueueOf(jobKeyOf(call), to.receiver);
  const written = (type: Ending) => {
    const told = { type, call_id: id, origin, ...(failure && { failure }), to };
    return [callbackId(id, type), JSON.stringify(toCall(call, at, told, traceparent))];
  };
  const [completed, failed] = [written("call.completed"), written("call.failed")];
  return JSON.stringify({ queue, gate: gateOf(queue), "call.completed": completed, "call.failed": failed });
}

/** The same of a call that cannot be read, or must not be. */
export function prepareUnread(
  { id, queue }: { id: string; queue: QueueName },
  at: number,
  failure: Failure,
): PreparedCallback | undefined {
  if (isOfCallbacks(queue)) return undefined;
  const { serviceId, jobIndex } = jobIdsOf(queue);
  const told = { type: "call.failed", call_id: id, origin: originOf(queue), failure, to: null } as const;
  const call = toCall({ service_id: serviceId, job_id: jobIndex }, at, told);
  return JSON.stringify({ job: jobOf(queue), id: callbackId(id, "call.failed"), data: JSON.stringify(call) });
}

const NO_BODY = { body: "", bytes: 0, sha256: sha256Hex(Buffer.alloc(0)) } as const;

/** The script that ends an unread call puts in its receiver. */
type PreparedEvent = Omit<CallbackEvent, "to"> & { to: Callback | null };

function toCall(
  { service_id, job_id }: Pick<JobCall, "service_id" | "job_id">,
  at: number,
  told: PreparedEvent,
  traceparent?: string,
): Omit<JobCall, "told"> & { told: PreparedEvent } {
  return {
    id: callbackId(told.call_id, told.type),
    origin: "callback",
    service_id,
    job_id,
    metadata: {},
    ...NO_BODY,
    accepted_at: at,
    ...(traceparent !== undefined && { traceparent }),
    told,
  };
}
