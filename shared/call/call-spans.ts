import { type Span, tracer } from "../platform/traces/tracer.ts";
import type { CallHead } from "./job-call.ts";

function attributesOf(operation: "create" | "send" | "process", call: CallHead, queue: string) {
  return {
    "postern.call_id": call.id,
    "postern.service_id": call.service_id,
    "postern.job_id": call.job_id,
    "messaging.system": "bullmq",
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": queue,
    "messaging.message.id": call.id,
    "messaging.message.body.size": call.bytes,
  };
}

/**
 * Begins the trace span in which a call is written to Redis, and stores the span's context in the call. So all attempts at
 * the call belong to the same trace, in any process and however late. `create` is the claim of a payment. `send` is the
 * addition to the queue; for a paid call, the payment gateway's reconciler may do it later.
 */
export function startCreation(operation: "create" | "send", call: CallHead, queue: string): Span | undefined {
  if (tracer === undefined) return undefined;
  const attributes = attributesOf(operation, call, queue);
  const span = tracer.start({ kind: "producer", name: `${operation} ${queue}`, attributes });
  call.traceparent = span.traceparent;
  return span;
}

type Attempt = { readonly queue: string; readonly attemptsBefore: number };

/** Begins the span of one attempt to deliver a call. Attempts are counted across replays. */
export function startAttempt(call: CallHead, { queue, attemptsBefore }: Attempt): Span | undefined {
  return tracer?.start({
    kind: "consumer",
    name: `process ${queue}`,
    parent: call.traceparent,
    isLinked: true,
    attributes: { ...attributesOf("process", call, queue), "postern.attempt": attemptsBefore + 1 },
  });
}
