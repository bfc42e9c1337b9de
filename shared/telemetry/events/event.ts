import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { EventOutcome } from "./outcomes.ts";

/*
 * Live events: gateways and producers send them over Redis' pub/sub to followers, such as `postern tail` and the
 * console. They are not reliable. No process waits for them, and an event is lost if no follower listens. Above a
 * limit, a process only counts its events. They contain no secret and no body.
 */

const common = {
  /** Unix ms, by the clock of the process that sends the event. */
  at: z.int(),
  origin: z.enum(ORIGINS),
  /**
   * Path of the webhook endpoint. Absent for calls of other origins, and for a refused request to a path that no
   * endpoint has. Also absent for a call whose record the producer cannot read.
   */
  endpoint: z.string().optional(),
};

const ofCall = {
  ...common,
  call_id: z.string(),
  /** `<service id>/<job index>`. */
  job: z.string(),
  /** Number of this attempt, from 1, since the call was queued or last replayed. */
  attempt: z.int(),
  /**
   * Number of all earlier attempts at the call. Unlike `attempt`, it includes attempts before a replay, and attempts
   * that do not count towards the limit of attempts.
   */
  attempts_before: z.int(),
};

/** Error of a failed attempt or call: its code, and the reason that the log also has. */
const why = { code: z.string(), reason: z.string() };

/** One event. A later release may add fields. */
export const CallEvent = z.discriminatedUnion("outcome", [
  /** A gateway has stored a call on disk and answered its sender or payer. */
  z.object({
    ...common,
    outcome: z.literal("accepted"),
    call_id: z.string(),
    /**
     * Absent if no request of the payer was open when the payment was completed. Then the gateway's reconciler
     * completed it, which checks payments with an unknown outcome in the background.
     */
    job: z.string().optional(),
    /** Size of the body. */
    bytes: z.int().optional(),
    /** True for a repeat: the gateway had accepted this delivery or payment before, and its call does not run again. */
    replayed: z.boolean(),
    payer: z.string().optional(),
    transaction: z.string().optional(),
    /** Duration of the request. */
    ms: z.number().optional(),
  }),
  /**
   * A gateway has refused one or more requests. During a flood of unauthenticated requests it sends an event for only
   * some of them. `times` then includes the refusals before it without an event, so the `times` of all events add up to
   * all refusals.
   */
  z.object({
    ...common,
    outcome: z.literal("refused"),
    code: z.string(),
    /** Absent if the event counts requests with different reasons together. */
    reason: z.string().optional(),
    times: z.int(),
    call_id: z.string().optional(),
    job: z.string().optional(),
    /** The client's address. Absent if the event counts the requests of several clients together. */
    address: z.string().optional(),
    /** Path of a request for which no endpoint is configured. */
    path: z.string().optional(),
  }),
  /** The runner has accepted the call. */
  z.object({
    ...ofCall,
    outcome: z.literal("injected"),
    /** Time from the request to the runner until its answer. */
    inject_ms: z.number(),
    /** Time since the call was accepted. */
    end_to_end_ms: z.number(),
  }),
  /** An attempt has failed, or the runner has asked for a later retry. The call is sent again after `wait_ms`. */
  z.object({
    ...ofCall,
    outcome: z.literal("retried"),
    ...why,
    wait_ms: z.number(),
    /** True if the attempt counts towards the limit of attempts. */
    spent: z.boolean(),
  }),
  /** The call stays failed until an operator replays or discards it. */
  z.object({ ...ofCall, outcome: z.literal("failed"), ...why }),
]);
export type CallEvent = z.infer<typeof CallEvent>;

/** Kinds of processes that send events. */
export const SENDING_SERVICES = ["webhooks", "x402", "producer"] as const;

/** Sender of an event: the kind of the process, and its host and process id. */
export const EventSender = z.object({ service: z.enum(SENDING_SERVICES), process: z.string() });
export type EventSender = z.infer<typeof EventSender>;

/** Number of events that a process has only counted and not sent, by outcome. */
export const LeftOut = z.record(z.string(), z.int());
export type LeftOut = z.infer<typeof LeftOut>;

/** One pub/sub message of a process. It has the events that the process has collected, up to a maximum size. */
export const EventBatch = z.object({
  v: z.literal(1),
  from: EventSender,
  /**
   * Id of the followers' lease, a Redis key that exists while followers listen. Only in the first message after the
   * process has found a lease with this id.
   */
  hello: z.string().optional(),
  events: z.array(CallEvent),
  /** Number of events, by outcome, that exceeded the limit per second since the last message, and were not sent. */
  left_out: LeftOut.optional(),
});
export type EventBatch = z.infer<typeof EventBatch>;

/** Selects the events that match every key present. */
export type EventFilter = {
  endpoint?: string | undefined;
  job?: string | undefined;
  origin?: CallEvent["origin"] | undefined;
  outcomes?: readonly EventOutcome[] | undefined;
  callId?: string | undefined;
};

export function isWanted(event: CallEvent, filter: EventFilter): boolean {
  const { endpoint, job, origin, outcomes, callId } = filter;
  return (
    (endpoint === undefined || event.endpoint === endpoint) &&
    (job === undefined || event.job === job) &&
    (origin === undefined || event.origin === origin) &&
    (outcomes === undefined || outcomes.includes(event.outcome)) &&
    (callId === undefined || event.call_id?.startsWith(callId) === true)
  );
}
