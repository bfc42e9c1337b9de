import type { AuditEntryView as AuditEntry } from "../../../../shared/console/audit-trail.ts";

/**
 * Makes one row of each bulk operation: merges the line of its start with the lines of its calls. These lines may be on
 * several pages. The row has the position of the oldest line read so far.
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
