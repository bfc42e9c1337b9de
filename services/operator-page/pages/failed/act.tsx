import { useEffect, useState } from "preact/hooks";
import { type Refused, toRefused } from "../../api/ask.ts";
import {
  type Preview,
  preview,
  type Run,
  type RunAction,
  type Selection,
  startRun,
  type Wish,
} from "../../api/failed.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Notice } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { ReasonField } from "../../ui/reason-field.tsx";
import { titleOf } from "../../ui/why.tsx";
import { RunProgress } from "./run-progress.tsx";

/** What somebody is about to do, and with which calls. */
export type Act = { action: RunAction; selection: Selection; count: number };

const VERB = { replay: "Replay", discard: "Discard" } as const;

/** Shows how many calls it would be and which, asks why, and shows how far it is. It goes on if it is closed. */
export function ActDialog({ act, onClose }: { act: Act; onClose: () => void }) {
  const [run, setRun] = useState<Run | undefined>();
  const title = `${VERB[act.action]} ${counted(act.count, "failed call")}`;
  if (run === undefined) return <Ask act={act} title={title} onStarted={setRun} onClose={onClose} />;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <button type="button" onClick={onClose}>
          {run.state === "running" ? "Close, it goes on" : "Close"}
        </button>
      }
    >
      <RunProgress run={run} onChange={setRun} />
    </Dialog>
  );
}

type AskProps = { act: Act; title: string; onStarted: (run: Run) => void; onClose: () => void };

function Ask({ act: { action, selection }, title, onStarted, onClose }: AskProps) {
  const [seen, setSeen] = useState<Preview | undefined>();
  const [refused, setRefused] = useState<Refused | undefined>();
  const [force, setForce] = useState(false);
  const [reason, setReason] = useState("");
  const [isBusy, setBusy] = useState(false);
  const wish = JSON.stringify({ action, selection, force });

  useEffect(() => {
    let isOver = false;
    preview(JSON.parse(wish) as Wish).then(
      (found) => isOver || setSeen(found),
      (error: unknown) => isOver || setRefused(toRefused(error)),
    );
    return () => {
      isOver = true;
    };
  }, [wish]);

  const chosen = seen === undefined ? undefined : seen.matched - (force ? 0 : seen.needs_force_count);
  const start = async () => {
    setBusy(true);
    try {
      onStarted(await startRun({ action, selection, force, reason: reason.trim() }));
    } catch (error) {
      setRefused(toRefused(error));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="button"
            class={action === "discard" ? "danger" : "primary"}
            disabled={isBusy || chosen === undefined || chosen === 0 || reason.trim() === ""}
            onClick={start}
          >
            {VERB[action]} {chosen === undefined ? "" : counted(chosen, "call")}
          </button>
        </>
      }
    >
      {refused !== undefined && (
        <Notice tone="bad" title="Nothing was done">
          {refused.detail}
        </Notice>
      )}
      <p>{EFFECT[action]}</p>
      {seen === undefined ? <p class="muted">Counting</p> : <WhatItWouldBe seen={seen} />}
      {seen !== undefined && seen.needs_force_count > 0 && (
        <label class="check">
          <input type="checkbox" checked={force} onChange={() => setForce(!force)} />
          <span>
            Also the {counted(seen.needs_force_count, "call")} whose key the runner remembers no more. It may
            run them <strong>a second time</strong>.
          </span>
        </label>
      )}
      <ReasonField value={reason} onChange={setReason} />
    </Dialog>
  );
}

const EFFECT = {
  replay:
    "They go back into the queue with all their attempts, under the same keys: a runner that has done one before does not do it again.",
  discard: "They end for good without running, and their bodies are deleted. This cannot be undone.",
} as const;

function WhatItWouldBe({ seen }: { seen: Preview }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Why they failed</th>
          <th scope="col" class="number">
            Calls
          </th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(seen.by_code).map(([code, calls]) => (
          <tr key={code}>
            <td>
              {titleOf(code)} <code class="muted">{code}</code>
            </td>
            <td class="number">{count(calls)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
