import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { AUDIT_KEPT, keys } from "./agreements.ts";

export type AuditEntry = {
  at: number;
  action: "replay" | "discard";
  callId: string;
  /** Who did it: `user@host`. */
  by: string;
  /** By which filters or ids the call was chosen. */
  selection: string;
  /** Why, in the operator's words. */
  reason?: string | undefined;
};

export type Audit = (entry: AuditEntry) => Promise<void>;

const EVENTS = { replay: "call.replayed", discard: "call.discarded" } as const;

/**
 * Writes down what was done to a call, in the log and in the audit stream. It follows the deed, so that a line is never
 * about something that did not happen; a process killed between the two leaves the line out.
 */
export function createAudit(redis: Redis, log: Logger): Audit {
  return async ({ at, action, callId, by, selection, reason }) => {
    log.info(EVENTS[action], { callId, by, selection, ...(reason !== undefined && { reason }) });
    const fields = ["at", at, "action", action, "call_id", callId, "by", by, "selection", selection];
    if (reason !== undefined) fields.push("reason", reason);
    await redis.xadd(keys.audit, "MAXLEN", "~", AUDIT_KEPT, "*", ...fields).catch((cause: unknown) => {
      const why = `the ${action} of ${callId} is done, but its audit line could not be written: ${messageOf(cause)}`;
      throw new AppError("queue.unavailable", { reason: why, cause });
    });
  };
}
