import { useEffect, useState } from "preact/hooks";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import { cancelRun, type Run, resumeRun } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { Badge, Notice, type Tone } from "../../ui/notice.tsx";
import { count } from "../../ui/number.ts";

const EVERY_MS = 500;

const WORDS: Record<Run["state"], [string, Tone]> = {
  running: ["running", "accent"],
  done: ["done", "good"],
  cancelled: ["cancelled", "warn"],
  interrupted: ["interrupted", "warn"],
  failed: ["stopped", "bad"],
};

/** How far a replay or discard has come, as it goes on, with what ends it or lets it go on. */
export function RunProgress({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const mayOperate = useMayOperate();
  const [refused, setRefused] = useState<Refused | undefined>();
  const { id, state } = run;

  useEffect(() => {
    if (state !== "running") return;
    const stop = new AbortController();
    const look = () =>
      ask<Run>("GET", `api/v1/runs/${id}`, { signal: stop.signal }).then(
        (found) => {
          setRefused(undefined);
          onChange(found);
        },
        (error: unknown) => {
          if (!stop.signal.aborted) setRefused(toRefused(error));
        },
      );
    const timer = setInterval(look, EVERY_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [id, state, onChange]);

  const change = (by: (id: string) => Promise<Run>) => async () => {
    try {
      onChange(await by(id));
    } catch (error) {
      setRefused(toRefused(error));
    }
  };
  const ended = run.done + run.left_meanwhile;
  const part = run.total === 0 ? 1 : Math.min(1, ended / run.total);
  const [word, tone] = WORDS[state];
  return (
    <div class="run">
      <p class="run-line">
        <Badge tone={tone}>{word}</Badge>
        <span role="status">
          {count(run.done)} of {count(run.total)} {run.action === "replay" ? "replayed" : "discarded"}
          {run.left_meanwhile > 0 && `, ${count(run.left_meanwhile)} had left meanwhile`}
        </span>
        {mayOperate && state === "running" && (
          <button type="button" onClick={change(cancelRun)}>
            Cancel
          </button>
        )}
        {mayOperate && (state === "cancelled" || state === "interrupted" || state === "failed") && (
          <button type="button" onClick={change(resumeRun)}>
            Do the rest
          </button>
        )}
      </p>
      <div
        class="bar"
        role="progressbar"
        aria-label={`Calls ${run.action === "replay" ? "replayed" : "discarded"}`}
        aria-valuenow={Math.round(part * 100)}
        aria-valuemin={0}
        aria-valuemax={100}
      >
        <div style={{ width: `${part * 100}%` }} />
      </div>
      {run.failure !== null && (
        <Notice tone="bad" title="It stopped">
          {run.failure}
        </Notice>
      )}
      {refused !== undefined && (
        <Notice tone="warn" title="How far it is cannot be told now">
          {refused.detail}
        </Notice>
      )}
    </div>
  );
}
