import type { AuditEntryView as AuditEntry } from "../../../../shared/console/audit-trail.ts";

/**
 * Makes one row of a bulk operation: its calls, which may be on several pages, and the line of its beginning. The row stands where the
 * operation began, as far as that is listed.
 */
export function merged(entries: readonly AuditEntry[]): AuditEntry[] {
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
    rows.set(run, joined(known, entry, begins));
  }
  return [...rows.values()];
}

function joined(known: AuditEntry | undefined, entry: AuditEntry, begins: boolean): AuditEntry {
  if (known === undefined) return entry;
  const sum = (known.calls ?? 0) + (entry.calls ?? 0);
  const { call_id, action } = known;
  return begins ? { ...entry, call_id, action, calls: sum } : { ...known, calls: sum };
}
