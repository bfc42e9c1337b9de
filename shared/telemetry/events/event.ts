import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { EventOutcome } from "./outcomes.ts";

/*
 * What processes tell whoever follows them, over Redis' pub/sub. It is a view and no record: nothing waits for it, what nobody
 * listens to is gone, and what is above a bound is only counted. It holds no secret and no body.
 */

const common = {
  /** Unix milliseconds, by the clock of the process that tells it. */
  at: z.int(),
  origin: z.enum(ORIGINS),
  /** The path of the webhook endpoint; absent if the call was bought, or if no endpoint has the path. */
  endpoint: z.string().optional(),
};

const ofCall = {
  ...common,
  call_id: z.string(),
  /** `<service id>/<job index>`. */
  job: z.string(),
  /** Counts from 1 the attempts that are spent since the call was queued or last replayed. */
  attempt: z.int(),
  /** How many attempts there were before this one, spent or not, also across replays. */
  attempts_before: z.int(),
};

/** Why something went wrong; the reason is the log's. */
const why = { code: z.string(), reason: z.string() };

/** One event. A later release may add fields. */
export const CallEvent = z.discriminatedUnion("outcome", [
  /** A gateway has put a call on disk and answered its sender or payer. */
  z.object({
    ...common,
    outcome: z.literal("accepted"),
    call_id: z.string(),
    /** Absent if the reconciler has finished a payment. */
    job: z.string().optional(),
    /** Of the body. */
    bytes: z.int().optional(),
    /** The delivery or the payment was known before, and nothing runs twice. */
    replayed: z.boolean(),
    payer: z.string().optional(),
    transaction: z.string().optional(),
    /** How long the request took. */
    ms: z.number().optional(),
  }),
  /**
   * A gateway has refused requests. Those that prove nothing are sampled, so an event may stand for many; of all events
   * together, `times` adds up to all refusals.
   */
  z.object({
    ...common,
    outcome: z.literal("refused"),
    code: z.string(),
    /** Absent if requests with different reasons are counted together. */
    reason: z.string().optional(),
    times: z.int(),
    call_id: z.string().optional(),
    job: z.string().optional(),
    /** The client's; absent of requests that are counted together. */
    address: z.string().optional(),
    /** As the request had it, if no endpoint has this path. */
    path: z.string().optional(),
  }),
  /** The runner has taken the call. */
  z.object({
    ...ofCall,
    outcome: z.literal("injected"),
    /** How long the runner took, and how long it is since the call was accepted. */
    inject_ms: z.number(),
    end_to_end_ms: z.number(),
  }),
  /** An attempt has failed, or the runner has put the call off; it comes again after `wait_ms`. */
  z.object({
    ...ofCall,
    outcome: z.literal("retried"),
    ...why,
    wait_ms: z.number(),
    /** Whether the attempt counts. */
    spent: z.boolean(),
  }),
  /** The call is kept as failed, until an operator replays or discards it. */
  z.object({ ...ofCall, outcome: z.literal("failed"), ...why }),
]);
export type CallEvent = z.infer<typeof CallEvent>;

/** The kinds of processes that tell events. */
export const TELLERS = ["webhooks", "x402", "producer"] as const;

/** Who tells: the kind of the process, and its host and id. */
export const Teller = z.object({ service: z.enum(TELLERS), process: z.string() });
export type Teller = z.infer<typeof Teller>;

/** How many events of each outcome were left out. */
export const LeftOut = z.record(z.string(), z.int());
export type LeftOut = z.infer<typeof LeftOut>;

/** One message of a process: the events of one turn of its event loop. */
export const EventBatch = z.object({
  v: z.literal(1),
  from: Teller,
  /** From now on this process tells the followers whose lease this is. */
  hello: z.string().optional(),
  events: z.array(CallEvent),
  /** Events above the bound since the message before. */
  left_out: LeftOut.optional(),
});
export type EventBatch = z.infer<typeof EventBatch>;

/** Which events somebody wants; a key that is absent leaves none out. */
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
