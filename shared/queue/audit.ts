import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { AUDIT_KEPT } from "./protocol.ts";

type AuditEntry = {
  at: number;
  action: "replay" | "discard" | "settle" | "void";
  callId: string;
  /** Who did it: `user@host`. */
  by: string;
  /** By which filters or ids the call was chosen. */
  selection: string;
  /** Why, in the operator's words. */
  reason?: string | undefined;
  /** What a payment is said to have settled by. */
  transaction?: string;
};

export type Audit = (entry: AuditEntry) => Promise<void>;

const EVENTS = {
  replay: "call.replayed",
  discard: "call.discarded",
  settle: "payment.settled_by_operator",
  void: "payment.voided_by_operator",
} as const;

/**
 * Writes down what was done to a call, in the log and in the audit stream. It follows the deed, so that a line is never
 * about something that did not happen; a process killed between the two leaves the line out.
 */
export function createAudit(redis: Redis, log: Logger): Audit {
  return async ({ at, action, callId, by, selection, ...rest }) => {
    const said = Object.entries(rest).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    log.info(EVENTS[action], { callId, by, selection, ...Object.fromEntries(said) });
    const fields = ["at", at, "action", action, "call_id", callId, "by", by, "selection", selection];
    fields.push(...said.flat());
    await redis.xadd(keys.audit, "MAXLEN", "~", AUDIT_KEPT, "*", ...fields).catch((cause: unknown) => {
      const why = `the ${action} of ${callId} is done, but its audit line could not be written: ${messageOf(cause)}`;
      throw new AppError("queue.unavailable", { reason: why, cause });
    });
  };
}
