import type { AuditEntryView as AuditEntry } from "../../../../shared/console/audit-trail.ts";

/**
 * Makes one row for each bulk operation from its lines in the audit log: one for its start, and others for its calls.
 * The lines of one operation may be on several pages. The row is where the oldest line that was read so far is in the
 * list.
 */
export function mergeBulkEntries(entries: readonly AuditEntry[]): AuditEntry[] {
  const rows = new Map<string, AuditEntry>();
  for (const entry of entries) {
    const { run, calls, action } = entry;
    const begins = action.startsWith("begin_");
    if (run === undefined || (calls === undefined && !begins)) {
      rows.set(entry.id, entry);
      continue;
    }
    const known = rows.get(run);
    rows.delete(run);
    rows.set(run, addEntry(known, entry, begins));
  }
  return [...rows.values()];
}

function addEntry(known: AuditEntry | undefined, entry: AuditEntry, begins: boolean): AuditEntry {
  if (known === undefined) return entry;
  const sum = (known.calls ?? 0) + (entry.calls ?? 0);
  const { call_id, action } = known;
  return begins ? { ...entry, call_id, action, calls: sum } : { ...known, calls: sum };
}
