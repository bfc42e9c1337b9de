import { jobKey } from "../../call/job-ids.ts";
import { ORIGINS } from "../../call/origin.ts";
import type { Fields } from "../../platform/log/logger.ts";
import { cut } from "../../platform/text/cut.ts";
import type { CallEvent } from "./event.ts";
import { forRefusedWebhook } from "./refused-webhook.ts";

/** Converts a log entry into an event. */
type ToEvent = (fields: Fields, at: number) => CallEvent;

const TEXT_CHARS_MAX = 300;

const refusedWebhook: ToEvent = (fields, at) => ({
  at,
  outcome: "refused",
  origin: "webhook",
  endpoint: text(fields["path"]),
  code: String(fields["code"]),
  reason: text(fields["reason"]),
  times: Number(fields["times"] ?? 1),
  address: text(fields["address"]),
});

/**
 * Functions that convert log entries into events for followers, such as `postern tail`, by the name of the log event.
 * Every event is made from a log entry, so that the two cannot contradict each other.
 */
export const FROM_LOG: Readonly<Record<string, ToEvent>> = {
  "webhook.accepted": (fields, at) => ({
    at,
    outcome: "accepted",
    origin: "webhook",
    endpoint: text(fields["path"]),
    call_id: String(fields["callId"]),
    job: jobOf(fields),
    bytes: Number(fields["bytes"]),
    replayed: fields["replayed"] === true,
    ms: Number(fields["ms"]),
  }),
  ...forRefusedWebhook(refusedWebhook),
  "webhook.path_unknown": ({ path, reason, address, count }, at) => ({
    at,
    outcome: "refused",
    origin: "webhook",
    code: "request.not_found",
    reason: text(reason),
    times: Number(count),
    address: text(address),
    path: text(path),
  }),
  "payment.accepted": (fields, at) => ({
    at,
    outcome: "accepted",
    origin: "x402",
    call_id: String(fields["callId"]),
    job: jobOf(fields),
    replayed: fields["replayed"] === true,
    payer: text(fields["payer"]),
    transaction: text(fields["transaction"]),
    ms: Number(fields["ms"]),
  }),
  "payment.reconciled": ({ callId, payer, transaction }, at) => ({
    at,
    outcome: "accepted",
    origin: "x402",
    call_id: String(callId),
    replayed: false,
    payer: text(payer),
    transaction: text(transaction),
  }),
  "payment.refused": (fields, at) => ({
    at,
    outcome: "refused",
    origin: "x402",
    code: String(fields["code"]),
    reason: text(fields["reason"]),
    times: Number(fields["times"]),
    call_id: text(fields["callId"]),
    job: jobOf(fields),
  }),
  "call.injected": (fields, at) => ({
    ...ofCall(fields, at),
    outcome: "injected",
    inject_ms: Number(fields["injectMs"]),
    end_to_end_ms: Number(fields["endToEndMs"]),
  }),
  "call.delayed": (fields, at) => ({
    ...ofCall(fields, at),
    outcome: "retried",
    ...why(fields),
    wait_ms: Number(fields["waitMs"]),
    spent: fields["spent"] === true,
  }),
  "call.failed": (fields, at) => ({ ...ofCall(fields, at), outcome: "failed", ...why(fields) }),
};

function ofCall(fields: Fields, at: number) {
  const { origin, callId, attempt, attemptsBefore, path } = fields;
  return {
    at,
    origin: ORIGINS.find((each) => each === origin) ?? ("webhook" as const),
    endpoint: text(path),
    call_id: String(callId),
    job: String(jobOf(fields)),
    attempt: Number(attempt),
    attempts_before: Number(attemptsBefore),
  };
}

function why({ code, reason }: Fields) {
  return { code: String(code), reason: text(reason) ?? "" };
}

/** Returns the job's key. Webhook events name the job's index `jobId`; other events name it `jobIndex`. */
function jobOf({ serviceId, jobIndex, jobId = jobIndex }: Fields): string | undefined {
  if (serviceId === undefined || jobId === undefined) return undefined;
  return jobKey({ serviceId: Number(serviceId), jobIndex: Number(jobId) });
}

function text(value: unknown): string | undefined {
  return value === undefined ? undefined : cut(String(value), TEXT_CHARS_MAX);
}
