import { z } from "zod";

const ms = z.number().int().nonnegative();
const statusCode = z.number().int().min(200).max(599);

const common = {
  on: z.enum(["supported", "verify", "settle"]),
  /** Number of requests that get the fault. Without this number, all requests get the fault until the faults are cleared. */
  times: z.number().int().positive().optional(),
  /** Delay before the facilitator acts. Both delays end early if the faults are cleared. */
  delayMs: ms.default(0),
  /** Delay before the answer. */
  replyDelayMs: ms.default(0),
  /** Whether the facilitator performs the request despite the fault. A settle request then sends its transaction. */
  acts: z.boolean().default(false),
};

/** A fault with which the facilitator answers, in place of its normal answer. */
export const Fault = z.discriminatedUnion("kind", [
  /** Performs the request and answers normally, but late. */
  z.strictObject({ ...common, kind: z.literal("slow"), acts: z.literal(true).default(true) }),
  /** Breaks the connection instead of sending an answer. */
  z.strictObject({ ...common, kind: z.literal("drop") }),
  z.strictObject({
    ...common,
    kind: z.literal("status"),
    status: statusCode,
    /** Body of the answer. It is sent as JSON if it is JSON, else as plain text. */
    body: z.string().default('{"error":"fault on command"}'),
    retryAfterSecs: z.number().int().nonnegative().optional(),
  }),
  /** Answers 200 with an HTML page. */
  z.strictObject({ ...common, kind: z.literal("not_json") }),
  /** Answers `isValid: false` or `success: false`, with this reason. */
  z.strictObject({
    ...common,
    kind: z.literal("refuse"),
    reason: z.string().default("fault_on_command"),
  }),
  /**
   * Answers `isValid: true` or `success: true`, with this transaction. By default it is the facilitator's own transaction
   * if the facilitator performs the request (`acts`), and otherwise one that does not exist.
   */
  z.strictObject({
    ...common,
    kind: z.literal("accept"),
    transaction: z
      .string()
      .regex(/^0x[0-9a-f]{64}$/)
      .optional(),
  }),
  /**
   * Answers `success: false, errorReason: settlement_pending` with the hash of a transaction. The transaction is sent
   * after `landsAfterMs`. Without this field it is never sent.
   */
  z.strictObject({
    ...common,
    on: z.literal("settle"),
    kind: z.literal("pending"),
    acts: z.literal(false).default(false),
    landsAfterMs: ms.optional(),
  }),
  /** Answers with a redirect. Its default target is a path of the facilitator, which counts the clients that follow it. */
  z.strictObject({
    ...common,
    kind: z.literal("redirect"),
    status: z.number().int().min(300).max(399).default(302),
    location: z.string().default("/redirected"),
  }),
  /** Answers 200 with JSON of this size, sent as fast as the client reads. */
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
/** A fault in a request to the control port. Fields with a default may be left out. */
export type FaultOrder = z.input<typeof Fault>;
export type Operation = Fault["on"];

/** Faults that are still to be shown, the oldest first. A request gets the first one for its operation. */
export class Faults {
  #ordered: Fault[] = [];
  #cleared = new AbortController();

  order(fault: Fault): void {
    this.#ordered.push(fault);
  }

  /** Returns the fault for this request. Removes the fault if this was its last request. */
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

  /** Signal that aborts when the faults that exist now are cleared. */
  get cleared(): AbortSignal {
    return this.#cleared.signal;
  }

  clear(): void {
    this.#ordered = [];
    this.#cleared.abort();
    this.#cleared = new AbortController();
  }
}
