import { useMemo } from "preact/hooks";
import type { AuditEntryView as AuditEntry } from "../../../../shared/console/audit-trail.ts";
import type { ProcessStatus } from "../../api/flow.ts";
import { useAnswer } from "../../api/use-answer.ts";
import type { Marker } from "../../ui/chart.tsx";
import { counted } from "../../ui/number.ts";
import { Time } from "../../ui/time.tsx";
import { linkTo } from "../../url-fragment.ts";
import { mergeBulkEntries } from "../audit-log/merged.ts";

const EVERY_MS = 60_000;
const MINUTE_MS = 60_000;
const LINES_MAX = 200;
/** Number of markers that are also listed in words below the charts. */
const LISTED = 6;

/**
 * Returns markers for events that may explain a change in the charts, newest first. These are starts of processes, and
 * pauses, resumes, replays and runs of delayed calls, which are in the audit log.
 */
export function useMarkers(since: string | undefined, processes: readonly ProcessStatus[] = []): Marker[] {
  const audit = useAnswer(
    since === undefined ? undefined : "api/v1/audit",
    { since, stream: "acts", grouped: true, limit: LINES_MAX },
    { everyMs: EVERY_MS },
  );
  const entries = audit.data?.entries;
  const starts = JSON.stringify(
    processes.map(({ kind, version, started_at }) => [kind, version, started_at]),
  );
  return useMemo(() => {
    const from = Date.parse(since ?? "");
    return [...mergeBulkEntries(entries ?? []).flatMap(toMarker), ...startsOf(processes)]
      .filter(({ at }) => at >= from)
      .sort((a, b) => b.at - a.at);
  }, [entries, starts, since]);
}

function toMarker({ action, by, job, calls, at }: AuditEntry): Marker[] {
  const text = textOf(action, job, calls);
  return text === undefined ? [] : [{ at: Date.parse(at), text: `${by} ${text}` }];
}

function textOf(action: string, job: string | undefined, calls = 1): string | undefined {
  if (action === "pause") return `paused ${job}`;
  if (action === "resume") return `resumed ${job}`;
  if (action === "run_delayed") return `ran the delayed calls of ${job}`;
  return action === "replay" ? `replayed ${counted(calls, "call")}` : undefined;
}

/**
 * Makes markers for the starts of processes. Processes of one kind and release that started in the same minute share a
 * marker, because they were probably deployed together.
 */
function startsOf(processes: readonly ProcessStatus[]): Marker[] {
  const groups = new Map<string, { at: number; text: string; count: number }>();
  for (const { kind, version, started_at } of processes) {
    const at = Date.parse(started_at);
    const key = `${kind} ${version} ${Math.floor(at / MINUTE_MS)}`;
    const known = groups.get(key);
    if (known === undefined) groups.set(key, { at, text: `${kind} ${version} started`, count: 1 });
    else groups.set(key, { ...known, at: Math.min(at, known.at), count: known.count + 1 });
  }
  return [...groups.values()].map(({ at, text, count }) => ({
    at,
    text: count === 1 ? text : `${count} × ${text}`,
  }));
}

/** Lists the newest markers of the charts in words. */
export function MarkerList({ markers }: { markers: readonly Marker[] }) {
  if (markers.length === 0) return null;
  return (
    <ul class="markers small muted" aria-label="Events in the charts">
      {markers.slice(0, LISTED).map(({ at, text }) => (
        <li key={`${at} ${text}`}>
          <Time at={at} /> {text}
        </li>
      ))}
      {markers.length > LISTED && (
        <li>
          <a href={linkTo(["audit"])}>{markers.length - LISTED} more</a>
        </li>
      )}
    </ul>
  );
}
