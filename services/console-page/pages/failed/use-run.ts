import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Refused } from "../../api/ask.ts";
import { isFailedRun, isOpen, type Run } from "../../api/failed.ts";
import { useAnswer } from "../../api/use-answer.ts";

/** How often a run is asked for that has been followed for less than `untilMs`. */
const PACES = [
  { untilMs: 10_000, everyMs: 400 },
  { untilMs: 60_000, everyMs: 2000 },
];
const SLOWEST_MS = 5000;

/** Polls a run until it has ended, and a replay until none of its calls waits. Calls `onChange` with each view. Returns why a poll failed. */
export function useRun(run: Run | undefined, onChange: (run: Run) => void): Refused | undefined {
  const path = run !== undefined && isOpen(run) ? "api/v1/bulk/{run_id}" : undefined;
  const begunAt = useMemo(() => Date.now(), [path]);
  const followedMs = Date.now() - begunAt;
  const everyMs = PACES.find(({ untilMs }) => followedMs < untilMs)?.everyMs ?? SLOWEST_MS;
  const { data, isCurrent, refused } = useAnswer(path, { run_id: run?.id ?? "" }, { everyMs });

  // What was told before a run was resumed is not told again.
  const told = useRef<Run | undefined>(undefined);
  useEffect(() => {
    if (!isCurrent || data === undefined || data === told.current || !isFailedRun(data)) return;
    told.current = data;
    onChange(data);
  }, [isCurrent, data, onChange]);
  return path === undefined ? undefined : refused;
}
