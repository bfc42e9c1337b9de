import { z } from "zod";

const ms = z.number().int().nonnegative();
const statusCode = z.number().int().min(200).max(599);

const common = {
  on: z.enum(["supported", "verify", "settle"]),
  /** The number of requests that meet it; without it, all until the faults are cleared. */
  times: z.number().int().positive().optional(),
  /** A wait before anything is done. */
  delayMs: ms.default(0),
  /** A wait before the answer, which ends early if the faults are cleared. */
  replyDelayMs: ms.default(0),
  /** Whether the facilitator acts in spite of the false answer: with settle, the transaction lands. */
  acts: z.boolean().default(false),
};

/** A way in which requests to the facilitator go wrong. */
export const Fault = z.discriminatedUnion("kind", [
  /** The waits only: the true answer, late. */
  z.strictObject({ ...common, kind: z.literal("slow"), acts: z.literal(true).default(true) }),
  /** The connection is broken instead of an answer. */
  z.strictObject({ ...common, kind: z.literal("drop") }),
  z.strictObject({
    ...common,
    kind: z.literal("status"),
    status: statusCode,
    /** Sent as JSON if it is JSON; else as plain text. */
    body: z.string().default('{"error":"fault on command"}'),
    retryAfterSecs: z.number().int().nonnegative().optional(),
  }),
  /** A 200 that is a page. */
  z.strictObject({ ...common, kind: z.literal("not_json") }),
  /** `isValid: false` or `success: false`, with this reason. */
  z.strictObject({
    ...common,
    kind: z.literal("refuse"),
    reason: z.string().default("fault_on_command"),
  }),
  /** `isValid: true`, or `success: true` with this transaction; else with the one it made, if it acts, or one that does not exist. */
  z.strictObject({
    ...common,
    kind: z.literal("accept"),
    transaction: z
      .string()
      .regex(/^0x[0-9a-f]{64}$/)
      .optional(),
  }),
  /** `success: false, errorReason: settlement_pending` with the hash of a transaction that lands after this time, or never. */
  z.strictObject({
    ...common,
    on: z.literal("settle"),
    kind: z.literal("pending"),
    acts: z.literal(false).default(false),
    landsAfterMs: ms.optional(),
  }),
  /** Without a location, to a path of the facilitator that counts the requests that follow. */
  z.strictObject({
    ...common,
    kind: z.literal("redirect"),
    status: z.number().int().min(300).max(399).default(302),
    location: z.string().default("/redirected"),
  }),
  /** A 200 with JSON of this size, sent as fast as it is taken. */
  z.strictObject({
    ...common,
    kind: z.literal("huge"),
    bytes: z
      .number()
      .int()
      .positive()
      .default(64 * 1024 * 1024),
  }),
]);
export type Fault = z.output<typeof Fault>;
/** A fault as it is ordered: fields with a default may be left out. */
export type FaultOrder = z.input<typeof Fault>;
export type Operation = Fault["on"];

/** The faults that are not used up, oldest first. A request meets the first one of its operation. */
export class Faults {
  #ordered: Fault[] = [];
  #cleared = new AbortController();

  order(fault: Fault): void {
    this.#ordered.push(fault);
  }

  /** The fault that this request meets; uses it up if this was its last request. */
  take(on: Operation): Fault | undefined {
    const fault = this.#ordered.find((each) => each.on === on);
    if (fault?.times === undefined) return fault;
    fault.times -= 1;
    if (fault.times === 0) this.#ordered = this.#ordered.filter((each) => each !== fault);
    return fault;
  }

  list(): readonly Fault[] {
    return this.#ordered;
  }

  /** Aborts when the faults that are ordered now are cleared. */
  get cleared(): AbortSignal {
    return this.#cleared.signal;
  }

  clear(): void {
    this.#ordered = [];
    this.#cleared.abort();
    this.#cleared = new AbortController();
  }
}
