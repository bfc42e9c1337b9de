import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isFailedRun, isRunning, type Run } from "../../api/failed.ts";
import { serverTime } from "../../api/server-time.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Card } from "../../ui/card.tsx";
import { Time } from "../../ui/time.tsx";
import { RunProgress } from "./run-progress.tsx";

const EVERY_MS = 5000;
/** Number of the newest bulk operations of each kind that the page reads. */
const LISTED = 50;
/** Time for which a bulk operation is shown after its end. */
const SHOWN_MS = 900_000;

/** Shows the bulk replays and discards of all operators that run or have ended recently. */
export function Runs({ turn, onEnd }: { turn: number; onEnd: () => void }) {
  const options = { everyMs: EVERY_MS, turn };
  const replays = useAnswer("api/v1/bulk", { kind: "replay", limit: LISTED }, options);
  const discards = useAnswer("api/v1/bulk", { kind: "discard", limit: LISTED }, options);
  const runs = [...(replays.data?.runs ?? []), ...(discards.data?.runs ?? [])]
    .filter(isFailedRun)
    .filter(isOfInterest)
    .sort((a, b) => Date.parse(b.begun_at) - Date.parse(a.begun_at));
  if (runs.length === 0) return null;
  return (
    <Card title="Recent replays and discards" isBare>
      <ul class="runs">
        {runs.map((run) => (
          <li key={run.id}>
            <OneRun run={run} onEnd={onEnd} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function isOfInterest({ dry_run, ended_at }: Run): boolean {
  return !dry_run && (ended_at === null || serverTime() - Date.parse(ended_at) < SHOWN_MS);
}

function OneRun({ run, onEnd }: { run: Run; onEnd: () => void }) {
  const [now, setNow] = useState(run);
  // The list of bulk operations has no outcomes of replays. So an outcome that a poll of the operation itself has read
  // is kept.
  useEffect(() => setNow((before) => ({ ...run, outcome: run.outcome ?? before.outcome })), [run]);
  const wasUnderWay = useRef(isRunning(run));
  const follow = useCallback(
    (next: Run) => {
      setNow(next);
      if (wasUnderWay.current && !isRunning(next)) onEnd();
      wasUnderWay.current = isRunning(next);
    },
    [onEnd],
  );
  return (
    <>
      <p class="muted small">
        <Time at={run.begun_at} /> by {run.by}: {run.reason}
      </p>
      <RunProgress run={now} onChange={follow} />
    </>
  );
}
