import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/failed.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { Time } from "../../ui/time.tsx";
import { RunProgress } from "./run-progress.tsx";

const EVERY_MS = 5000;
/** An ended run is of interest for so long. */
const SHOWN_MS = 900_000;

/** The replays and discards that are under way, or were lately: also those that somebody else began. */
export function Runs({ turn, onEnd }: { turn: number; onEnd: () => void }) {
  const answer = useAnswer<{ runs: Run[] }>("api/v1/runs", {}, { everyMs: EVERY_MS, turn });
  const isOfInterest = ({ ended_at }: Run) =>
    ended_at === null || Date.now() - Date.parse(ended_at) < SHOWN_MS;
  const runs = answer.data?.runs.filter(isOfInterest) ?? [];
  if (runs.length === 0) return null;
  return (
    <section class="card" aria-label="Replays and discards">
      <div class="card-head">
        <h2>Under way, and lately</h2>
      </div>
      <ul>
        {runs.map((run) => (
          <li key={run.id} class="card-body">
            <OneRun run={run} onEnd={onEnd} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function OneRun({ run, onEnd }: { run: Run; onEnd: () => void }) {
  const [now, setNow] = useState(run);
  useEffect(() => setNow(run), [run]);
  const follow = (next: Run) => {
    setNow(next);
    if (next.state !== "running" && now.state === "running") onEnd();
  };
  return (
    <>
      <p class="muted small">
        <Time at={run.started_at} /> by {run.by}: {run.reason}
      </p>
      <RunProgress run={now} onChange={follow} />
    </>
  );
}
