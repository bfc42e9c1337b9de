import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { nothing } from "../redis/reply.ts";
import { VERSIONS } from "../redis/version.ts";
import writeLua from "./write.lua";

/** About so many entries are kept, the newest. */
const AUDIT_KEPT = 100_000;

export type AuditEntry = (
  | {
      action:
        | "replay"
        | "discard"
        | "forget"
        | "refund"
        | "withdraw"
        | "settle"
        | "void"
        | "acknowledge"
        | "drop";
      callId: string;
    }
  /** An endpoint was opened for a secret that comes in a handshake. */
  | { action: "open"; path: string }
  | { action: "pause" | "resume"; job: string }
) & {
  /** Unix ms. */
  at: number;
  /** Who did it: `user@host`. */
  by: string;
  /** The filters, ids or names that chose the call or job, or for how long the endpoint is open. */
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
  forget: "call.forgotten",
  refund: "payment.refund_exported",
  withdraw: "payment.refund_withdrawn",
  settle: "payment.settled_by_operator",
  void: "payment.voided_by_operator",
  acknowledge: "payment.acknowledged",
  drop: "payment.dropped_by_operator",
  open: "endpoint.opened",
  pause: "job.paused",
  resume: "job.resumed",
} as const;

export function isAuditAction(text: string): boolean {
  return Object.hasOwn(EVENTS, text);
}

const WRITE = defineScript({ source: writeLua, keys: "audit", args: "...words", reply: nothing });

/**
 * Writes what an operator did to a call, an endpoint or a job, to the log and to the audit stream. It is called after the
 * action, so that no entry tells of an action that did not happen; if the process is killed between the two, the entry is
 * missing. Throws `queue.unavailable`.
 */
export function createAudit({ redis, keys }: Partition, log: Logger): Audit {
  const write = WRITE.on(redis);
  return async (entry) => {
    logAudited(log, entry);
    await write({ audit: keys.audit }, { words: auditWords(entry) }).catch((cause: unknown) => {
      const [, subject] = subjectOf(entry);
      const why = `the ${entry.action} of ${subject} is done, but its audit line could not be written: ${messageOf(cause)}`;
      throw new AppError("queue.unavailable", { reason: why, cause });
    });
  };
}

/** What XADD takes for an entry, for a script that writes it in the step of the action itself. */
export function auditWords(entry: AuditEntry): (string | number)[] {
  const { at, action, by, selection } = entry;
  const head = ["v", VERSIONS.audit, "at", at, "action", action, ...subjectOf(entry)];
  const fields = [...head, "by", by, "selection", selection, ...Object.entries(detailsOf(entry)).flat()];
  return ["MAXLEN", "~", AUDIT_KEPT, "*", ...fields];
}

/** The log's line of an entry. */
export function logAudited(log: Logger, entry: AuditEntry): void {
  const { action, by, selection } = entry;
  const [name, subject] = subjectOf(entry);
  const named = { [name === "call_id" ? "callId" : name]: subject };
  log.info(EVENTS[action], { ...named, by, selection, ...detailsOf(entry) });
}

function detailsOf({ reason, transaction }: AuditEntry): Record<string, string> {
  return { ...(reason !== undefined && { reason }), ...(transaction !== undefined && { transaction }) };
}

/** What the entry is about: the name of its field, and the value. */
function subjectOf(entry: AuditEntry): [name: string, subject: string] {
  if (entry.action === "open") return ["path", entry.path];
  return "job" in entry ? ["job", entry.job] : ["call_id", entry.callId];
}
