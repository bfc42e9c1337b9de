import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";

/** About so many entries are kept, the newest. */
const AUDIT_KEPT = 100_000;

type AuditEntry = {
  /** Unix ms. */
  at: number;
  action: "replay" | "discard" | "settle" | "void";
  callId: string;
  /** Who did it: `user@host`. */
  by: string;
  /** The filters or ids that chose the call. */
  selection: string;
  /** Why, in the operator's words. */
  reason?: string | undefined;
  /** The transaction that an operator named as the payment's. */
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
 * Writes what an operator did to a call, to the log and to the audit stream. It is called after the action, so that no entry
 * tells of an action that did not happen; if the process is killed between the two, the entry is missing. Throws
 * `queue.unavailable`.
 */
export function createAudit(redis: Redis, log: Logger): Audit {
  return async ({ at, action, callId, by, selection, ...rest }) => {
    const present = Object.entries(rest).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    log.info(EVENTS[action], { callId, by, selection, ...Object.fromEntries(present) });
    const fields = ["at", at, "action", action, "call_id", callId, "by", by, "selection", selection];
    fields.push(...present.flat());
    await redis.xadd(keys.audit, "MAXLEN", "~", AUDIT_KEPT, "*", ...fields).catch((cause: unknown) => {
      const why = `the ${action} of ${callId} is done, but its audit line could not be written: ${messageOf(cause)}`;
      throw new AppError("queue.unavailable", { reason: why, cause });
    });
  };
}
