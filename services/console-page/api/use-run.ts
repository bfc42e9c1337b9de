import { useEffect, useMemo, useRef } from "preact/hooks";
import type { BulkView } from "../../../shared/console/bulk-operations.ts";
import type { Refused } from "./ask.ts";
import { isOpen } from "./failed.ts";
import { useAnswer } from "./use-answer.ts";

/** How often a run is asked for that has been followed for less than `untilMs`. */
const PACES = [
  { untilMs: 10_000, everyMs: 400 },
  { untilMs: 60_000, everyMs: 2000 },
];
const SLOWEST_MS = 5000;

/** Polls a run until it has ended, and a replay until none of its calls waits. Calls `onChange` with each view. Returns why a poll failed. */
export function useRun<Run extends BulkView>(
  run: Run | undefined,
  onChange: (run: Run) => void,
): Refused | undefined {
  const path = run !== undefined && isOpen(run) ? "api/v1/bulk/{run_id}" : undefined;
  const begunAt = useMemo(() => Date.now(), [path]);
  const followedMs = Date.now() - begunAt;
  const everyMs = PACES.find(({ untilMs }) => followedMs < untilMs)?.everyMs ?? SLOWEST_MS;
  const { data, isCurrent, refused } = useAnswer(path, { run_id: run?.id ?? "" }, { everyMs });

  // What was told before a run was resumed is not told again.
  const told = useRef<BulkView | undefined>(undefined);
  useEffect(() => {
    if (!isCurrent || data === undefined || data === told.current) return;
    told.current = data;
    onChange(data as Run); // a run keeps its kind
  }, [isCurrent, data, onChange]);
  return path === undefined ? undefined : refused;
}
