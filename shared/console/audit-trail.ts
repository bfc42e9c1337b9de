import { z } from "zod";
import { CALL_ID } from "../call/call-id.ts";
import { toIso } from "../platform/time/iso.ts";
import { AUDIT_STREAMS, isAuditAction } from "../redis/audit/actions.ts";
import { createReadAudit } from "../redis/audit/read.ts";
import type { Partition } from "../redis/partition.ts";
import { gate } from "./contract/parameters.ts";
import { next, type PageAsked } from "./cursor.ts";
import { RUN_ID } from "./runs/run.ts";
import { askedMs, askedTime, isoTime } from "./view.ts";

/** What somebody did, and why. What it is about depends on the action. */
export const AuditEntryView = z
  .object({
    id: z.string(),
    stream: z.enum(AUDIT_STREAMS),
    at: isoTime,
    action: z.string(),
    /** A token's name, or `user@host` of a command. */
    by: z.string(),
    call_id: z.string().optional(),
    job: z.string().optional(),
    endpoint: z.string().optional(),
    session: z.string().optional(),
    rejected_id: z.string().optional(),
    /** The run that it is about, or that did it. */
    run: z.string().optional(),
    /** The filters, ids or names that chose it; or from where, for how long or how. */
    selection: z.string(),
    reason: z.string().optional(),
    /** The transaction that was named as a payment's, or that has paid back. */
    transaction: z.string().optional(),
  })
  .meta({ id: "AuditEntry" });
export type AuditEntryView = z.infer<typeof AuditEntryView>;

/** Selects entries that meet every field present. */
export const AuditFilter = z.strictObject({
  /** Without it acts and money, or the stream of the action. */
  stream: z.enum(AUDIT_STREAMS).optional(),
  action: z
    .string()
    .refine(isAuditAction, "must be an action of the audit trail, such as pause or replay")
    .optional(),
  by: z.string().min(1).max(256).optional(),
  call_id: z.string().regex(CALL_ID).optional(),
  job: gate.optional(),
  run: z.string().regex(RUN_ID).optional(),
  since: askedTime.optional(),
  until: askedTime.optional(),
});
export type AuditFilter = z.infer<typeof AuditFilter>;

export const AuditPage = z.object({
  entries: z.array(AuditEntryView),
  /** With it even a page without entries is not the last: an answer looks at so many entries and no more. */
  next,
});
export type AuditPage = z.infer<typeof AuditPage>;

/** The newest first. */
export type ReadAuditTrail = (filter: AuditFilter, page: PageAsked) => Promise<AuditPage>;

type AuditPageRead = Awaited<ReturnType<ReturnType<typeof createReadAudit>>>;

/** What operators did, by the console or by commands. */
export function createReadAuditTrail(partition: Partition): ReadAuditTrail {
  const read = createReadAudit(partition);
  return async ({ since, until, ...wanted }, { limit, cursor }) => {
    const page = await read(
      {
        ...wanted,
        since: askedMs(since),
        until: askedMs(until),
      },
      { limit, after: cursor },
    );
    return {
      entries: page.entries.map(toView),
      next: page.next ?? null,
    };
  };
}

function toView({ id, stream, at, fields }: AuditPageRead["entries"][number]): AuditEntryView {
  const { action = "?", by = "?", selection = "?", reason, transaction } = fields;
  const { call_id, job, path, session, rejected_id, run } = fields;
  return {
    id,
    stream,
    at: toIso(at),
    action,
    by,
    call_id,
    job,
    endpoint: path,
    session,
    rejected_id,
    run,
    selection,
    reason,
    transaction,
  };
}
