import { z } from "zod";
import { CALL_ID, NOT_A_CALL_ID } from "../call/call-id.ts";
import { toIso } from "../platform/time/iso.ts";
import { AUDIT_STREAMS, isAuditAction } from "../redis/audit/actions.ts";
import { createReadAudit } from "../redis/audit/read.ts";
import type { Partitions } from "../redis/partition.ts";
import { gate } from "./contract/parameters.ts";
import { next, type PageRequest } from "./cursor.ts";
import { RUN_ID } from "./runs/run.ts";
import { askedMs, askedTime, count, isoTime } from "./view.ts";

/**
 * An act of an operator: who, when, what and why. The action determines which of the fields that name its subject are
 * present, such as `call_id` or `job`.
 */
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
    /** Address of a Redis server. */
    node: z.string().optional(),
    deployment: z.string().optional(),
    /** Id of the bulk operation that the act concerns, or that performed the act. */
    run: z.string().optional(),
    /**
     * The filters, ids or names that selected the subject. An act without a selection has another detail here, such as
     * the client address of a sign-in.
     */
    selection: z.string(),
    reason: z.string().optional(),
    /** Transaction that an operator named for the payment, or the transaction of the refund. */
    transaction: z.string().optional(),
    /**
     * Number of lines that this entry joins. A bulk operation writes one line for each call that it changes, and a
     * grouped page joins them. Absent if the entry is a single line.
     */
    calls: count.optional(),
  })
  .meta({ id: "AuditEntry" });
export type AuditEntryView = z.infer<typeof AuditEntryView>;

/** Selects entries that meet every field present. */
export const AuditFilter = z.strictObject({
  /**
   * Stream of the audit log to read. The default is the stream of `action` or, without an action, the streams `acts`
   * and `money`.
   */
  stream: z.enum(AUDIT_STREAMS).optional(),
  action: z
    .string()
    .refine(isAuditAction, "must be an action of the audit log, such as pause or replay")
    .optional(),
  by: z.string().min(1).max(256).optional(),
  call_id: z.string().regex(CALL_ID, NOT_A_CALL_ID).optional(),
  job: gate.optional(),
  run: z.string().regex(RUN_ID).optional(),
  since: askedTime.optional(),
  until: askedTime.optional(),
});
export type AuditFilter = z.infer<typeof AuditFilter>;

export const AuditPage = z.object({
  entries: z.array(AuditEntryView),
  /** Null on the last page. Any other page may be empty, because one request reads a limited number of entries. */
  next,
});
export type AuditPage = z.infer<typeof AuditPage>;

/**
 * Returns entries, newest first. A bulk operation writes one line for each call that it changes. With `grouped`, a
 * page joins these lines in one entry.
 */
export type ReadAuditTrail = (
  filter: AuditFilter,
  page: PageRequest & { grouped?: boolean },
) => Promise<AuditPage>;

type ReadAudit = ReturnType<typeof createReadAudit>;
type AuditPageRead = Awaited<ReturnType<ReadAudit>>;
type Entry = AuditPageRead["entries"][number];

/** Reads the acts of operators in the console and by commands. */
export function createReadAuditTrail(partitions: Partitions): ReadAuditTrail {
  const read = createReadAudit(partitions);
  return async ({ since, until, ...rest }, { limit, cursor, grouped = false }) => {
    const wanted = { ...rest, since: askedMs(since), until: askedMs(until) };
    if (grouped) return readGrouped(read, wanted, { limit, after: cursor });
    const page = await read(wanted, { limit, after: cursor });
    return { entries: page.entries.map(toView), next: page.next ?? null };
  };
}

const READ_AT_ONCE = 500;
/** Limit on the matching lines that are read for one grouped page. */
const LOOKED_AT_MAX = 10_000;

async function readGrouped(
  read: ReadAudit,
  wanted: Parameters<ReadAudit>[0],
  { limit, after }: { limit: number; after: string | undefined },
): Promise<AuditPage> {
  const rows = createRows(limit);
  let last = after;
  for (let lookedAt = 0; lookedAt < LOOKED_AT_MAX; lookedAt += READ_AT_ONCE) {
    const page = await read(wanted, { limit: READ_AT_ONCE, after: last });
    for (const entry of page.entries) {
      if (!rows.add(entry)) return { entries: rows.entries, next: last ?? null };
      last = entry.id;
    }
    if (page.next === undefined) return { entries: rows.entries, next: null };
    last = page.next;
  }
  return { entries: rows.entries, next: last ?? null };
}

function createRows(limit: number) {
  const entries: AuditEntryView[] = [];
  const groups = new Map<string, { calls: number }>();
  return {
    entries,
    /**
     * Adds an entry. If the page already has an entry of the same bulk operation, only increases its count. Adds
     * nothing and returns false if the page is full.
     */
    add(entry: Entry): boolean {
      const run = bulkOf(entry);
      const known = run === undefined ? undefined : groups.get(run);
      if (known !== undefined) {
        known.calls += 1;
        return true;
      }
      if (entries.length === limit) return false;
      const view = toView(entry);
      if (run === undefined) entries.push(view);
      else {
        const group = { ...view, calls: 1 };
        groups.set(run, group);
        entries.push(group);
      }
      return true;
    },
  };
}

/**
 * Returns the id of the bulk operation that wrote this line about a call. Returns undefined for a line of any other
 * act.
 */
function bulkOf({ fields }: Entry): string | undefined {
  return fields["call_id"] === undefined ? undefined : fields["run"];
}

function toView({ id, stream, at, fields }: Entry): AuditEntryView {
  const { action = "?", by = "?", selection = "?", reason, transaction } = fields;
  const { call_id, job, path, session, rejected_id, deployment, node, run } = fields;
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
    node,
    deployment,
    run,
    selection,
    reason,
    transaction,
  };
}
