import { useEffect, useMemo, useRef } from "preact/hooks";
import type { BulkView } from "../../../shared/console/bulk-operations.ts";
import type { Refused } from "./ask.ts";
import { isOpen } from "./failed.ts";
import { useAnswer } from "./use-answer.ts";

/**
 * Intervals between polls of a bulk operation. The page polls often at first, and less often the longer it has followed
 * the operation. Each interval applies until `untilMs` have passed.
 */
const PACES = [
  { untilMs: 10_000, everyMs: 400 },
  { untilMs: 60_000, everyMs: 2000 },
];
const SLOWEST_MS = 5000;

/**
 * Polls a bulk operation until it has ended. After a replay, polls until none of the replayed calls waits in the queue.
 * Calls `onChange` with each new state of the operation. Returns the error if the last poll failed.
 */
export function useRun<Run extends BulkView>(
  run: Run | undefined,
  onChange: (run: Run) => void,
): Refused | undefined {
  const path = run !== undefined && isOpen(run) ? "api/v1/bulk/{run_id}" : undefined;
  const begunAt = useMemo(() => Date.now(), [path]);
  const followedMs = Date.now() - begunAt;
  const everyMs = PACES.find(({ untilMs }) => followedMs < untilMs)?.everyMs ?? SLOWEST_MS;
  const { data, isCurrent, refused } = useAnswer(path, { run_id: run?.id ?? "" }, { everyMs });

  // Each answer is passed to `onChange` only once. Right after the user resumes an operation, `data` is still the
  // answer from before. If it were reported again, the operation would look stopped.
  const reported = useRef<BulkView | undefined>(undefined);
  useEffect(() => {
    if (!isCurrent || data === undefined || data === reported.current) return;
    reported.current = data;
    onChange(data as Run); // a bulk operation keeps its kind
  }, [isCurrent, data, onChange]);
  return path === undefined ? undefined : refused;
}
