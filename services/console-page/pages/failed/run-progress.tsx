import { useState } from "preact/hooks";
import type { BulkView } from "../../../../shared/console/bulk-operations.ts";
import { type Refused, toRefused } from "../../api/ask.ts";
import { cancelRun, isFailedRun, isRunning, type Run, resumeRun } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { useRun } from "../../api/use-run.ts";
import { ActionFailed, Badge, type Tone } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { RunProblems } from "../../ui/run-problems.tsx";
import { DueRefunds } from "./paid.tsx";

const WORDS: Record<Run["state"], [string, Tone]> = {
  waiting: ["starting", "accent"],
  running: ["running", "accent"],
  cancelling: ["cancelling", "warn"],
  done: ["done", "good"],
  cancelled: ["cancelled", "warn"],
  stopped: ["stopped", "bad"],
};

/** Shows the progress of a replay or discard, with buttons that cancel or resume it. */
export function RunProgress({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const [refused, setRefused] = useState<Refused | undefined>();
  const unread = useRun(run, onChange);
  const change = (by: (run: Run) => Promise<BulkView>) => async () => {
    try {
      const changed = await by(run);
      if (isFailedRun(changed)) onChange(changed);
      setRefused(undefined);
    } catch (error) {
      setRefused(toRefused(error));
    }
  };
  return (
    <div class="run">
      <Line run={run} onCancel={change(cancelRun)} onResume={change(resumeRun)} />
      <Bar run={run} />
      <ReplayOutcome run={run} />
      <DueRefunds due={run.refunds_due} />
      {refused !== undefined && <ActionFailed refused={refused} title="Nothing was changed" />}
      <RunProblems run={run} unread={unread} />
    </div>
  );
}

type LineProps = { run: Run; onCancel: () => void; onResume: () => void };

function Line({ run, onCancel, onResume }: LineProps) {
  const mayOperate = useMayOperate();
  const { state, kind, done, left_meanwhile: left } = run;
  const [word, tone] = WORDS[state];
  const total = totalOf(run);
  return (
    <div class="run-line">
      <Badge tone={tone}>{word}</Badge>
      <span role="status">
        {total === undefined || total === done
          ? counted(done, "call")
          : `${count(done)} of ${counted(total, "call")}`}{" "}
        {kind === "replay" ? "replayed" : "discarded"}
        {left > 0 && `, ${count(left)} ${left === 1 ? "was" : "were"} no longer failed`}
      </span>
      {mayOperate && isRunning(run) && (
        <button type="button" onClick={onCancel} disabled={state === "cancelling"}>
          Cancel
        </button>
      )}
      {mayOperate && (state === "cancelled" || state === "stopped") && (
        <button type="button" onClick={onResume}>
          Resume
        </button>
      )}
    </div>
  );
}

/** Shows how many of the replayed calls have been injected, have failed again, or still wait. */
function ReplayOutcome({ run: { outcome } }: { run: Run }) {
  if (outcome === null) return null;
  const { injected, failed_again: again, waiting, other, is_whole: isWhole } = outcome;
  const parts = [
    { words: "injected", calls: injected, tone: "good-text" },
    { words: "failed again", calls: again, tone: "bad-text" },
    { words: "waiting", calls: waiting, tone: "" },
    { words: "discarded or no longer known", calls: other, tone: "muted" },
  ].filter(({ calls }) => calls > 0);
  if (parts.length === 0) return null;
  return (
    <p role="status">
      {!isWhole && "The newest 1,000 calls: "}
      {parts.map(({ words, calls, tone }, i) => (
        <span key={words}>
          {i > 0 && ", "}
          <span class={tone}>
            {count(calls)} {words}
          </span>
        </span>
      ))}
    </p>
  );
}

function Bar({ run }: { run: Run }) {
  const total = totalOf(run);
  const part = total === undefined ? 0 : total === 0 ? 1 : (run.done + run.left_meanwhile) / total;
  return (
    <div
      class="bar"
      role="progressbar"
      aria-label={run.kind === "replay" ? "Calls replayed" : "Calls discarded"}
      aria-valuenow={Math.round(part * 100)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <div style={{ width: `${part * 100}%` }} />
    </div>
  );
}

/** Returns the number of calls of a bulk operation; undefined until they are counted. */
function totalOf({ done, left_meanwhile, remaining }: Run): number | undefined {
  return remaining === null ? undefined : done + left_meanwhile + remaining;
}
