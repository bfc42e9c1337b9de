import { useCallback, useEffect, useState } from "preact/hooks";
import { Refused, toRefused } from "../../api/ask.ts";
import {
  isRunning,
  type Run,
  type RunAction,
  type RunRequest,
  type Selection,
  startRun,
} from "../../api/failed.ts";
import { isDefiniteRefusal, useRetry } from "../../api/use-retry.ts";
import { useRun } from "../../api/use-run.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { ActionFailed, Notice } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { ReasonField } from "../../ui/reason-field.tsx";
import { MissingIds } from "../../ui/run-problems.tsx";
import { titleOf } from "../../ui/why.tsx";
import { PaidSplit } from "./paid.tsx";
import { RunProgress } from "./run-progress.tsx";

/** An action that the user has chosen, and the calls that it applies to. */
export type Act = { action: RunAction; selection: Selection };

const VERB = { replay: "Replay", discard: "Discard" } as const;

/**
 * Dialog for a replay or discard. First shows how many calls it would affect, and asks for a reason. Then shows the
 * progress. If the user closes the dialog, the operation continues.
 */
export function ActDialog({ act, onClose }: { act: Act; onClose: () => void }) {
  const [run, setRun] = useState<Run | undefined>();
  const title = titleFor(act);
  if (run === undefined) return <Ask act={act} title={`${title}?`} onStarted={setRun} onClose={onClose} />;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <button type="button" onClick={onClose}>
          {isRunning(run) ? "Continue in background" : "Close"}
        </button>
      }
    >
      <RunProgress run={run} onChange={setRun} />
    </Dialog>
  );
}

/**
 * Returns the title of the dialog. The title has no number of calls, because only the console can count them, and the
 * number changes while the dialog is open.
 */
function titleFor({ action, selection }: Act): string {
  const isOne = "ids" in selection && selection.ids.length === 1;
  return `${VERB[action]} ${isOne ? "this failed call" : "failed calls"}`;
}

type AskProps = { act: Act; title: string; onStarted: (run: Run) => void; onClose: () => void };

function Ask({ act: { action, selection }, title, onStarted, onClose }: AskProps) {
  const [force, setForce] = useState(false);
  const [reason, setReason] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<Refused | undefined>();
  const preview = useCount({ action, selection, force });
  const { run, chosen } = preview;
  const [isOffered, setOffered] = useState(false);
  if (!isOffered && (run?.needs_force_count ?? 0) > 0) setOffered(true);
  const start = async () => {
    if (run === undefined) return;
    setBusy(true);
    setRefused(undefined);
    try {
      const wish = { action, selection: limitToCounted(selection, run), force };
      onStarted(await startRun({ ...wish, reason: reason.trim(), dry_run: false }));
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
      {refused !== undefined && <ActionFailed refused={refused} title="Nothing was changed" />}
      {refused === undefined && preview.refused !== undefined && (
        <Notice
          tone="bad"
          title="Calls could not be counted"
          {...(preview.run === undefined && { action: { name: "Try again", run: preview.again } })}
        >
          {preview.refused.detail}
        </Notice>
      )}
      <p>{EFFECT[action]}</p>
      <Preview run={run} />
      {run !== undefined && chosen !== undefined && <PaidSplit paid={run.paid} calls={chosen} />}
      {run !== undefined && <MissingIds missing={run.missing} />}
      {action === "replay" && isOffered && (
        <label class="check">
          <input type="checkbox" checked={force} onChange={() => setForce(!force)} />
          <span>
            Include calls whose id the runner may have forgotten
            {run !== undefined && !force && ` (${counted(run.needs_force_count ?? 0, "call")})`}. The runner
            may run them <strong>a second time</strong>.
          </span>
        </label>
      )}
      <ReasonField value={reason} onChange={setReason} example={EXAMPLE[action]} />
    </Dialog>
  );
}

/**
 * Narrows a filter to the calls that the user has seen counted. It excludes calls that failed after the count, and
 * selects at most the counted number.
 */
function limitToCounted(selection: Selection, { begun_at, matched }: Run): Selection {
  if ("ids" in selection || matched === null) return selection;
  const { filter } = selection;
  const isEarlier = filter.until !== undefined && Date.parse(filter.until) < Date.parse(begun_at);
  return { filter: { ...filter, until: isEarlier ? filter.until : begun_at }, limit: matched };
}

/**
 * Reason in a request that only counts. The console requires one in each request, but does not write it to the audit
 * log, because a count changes nothing.
 */
const WHY_COUNTED = "counted before confirmation";

type Count = {
  run: Run | undefined;
  chosen: number | undefined;
  refused: Refused | undefined;
  again: () => void;
};

/**
 * Makes the console count the calls that a bulk operation would affect. If the user changes the choice, the count of
 * the earlier choice is no longer shown. The console stores each count as a bulk operation, and many counts would evict
 * older bulk operations. So the same choice is counted again only if the console refused the count, or if the user asks
 * for it.
 */
function useCount(wish: RunRequest): Count {
  const asked = JSON.stringify(wish);
  const [{ of, ...known }, setKnown] = useState<{ of: string; run?: Run; refused?: Refused }>({ of: asked });
  const setRun = useCallback((run: Run) => setKnown({ of: asked, run }), [asked]);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isOver = false;
    startRun({ ...(JSON.parse(asked) as RunRequest), reason: WHY_COUNTED, dry_run: true }).then(
      (begun) => isOver || setRun(begun),
      (error: unknown) => isOver || setKnown({ of: asked, refused: toRefused(error) }),
    );
    return () => {
      isOver = true;
    };
  }, [asked, setRun, turn]);
  const { run, refused } = of === asked ? known : {};
  const again = () => setTurn((before) => before + 1);
  useRetry(refused, again, isDefiniteRefusal);
  const unread = useRun(run, setRun);
  const isCounted = run?.state === "done";
  return {
    run,
    chosen: isCounted ? (run.remaining ?? 0) : undefined,
    refused: refused ?? (run && unread) ?? refusalOf(run),
    again,
  };
}

function refusalOf(run: Run | undefined): Refused | undefined {
  if (run?.failure == null) return undefined;
  return new Refused(run.failure.code, { status: 500, detail: run.failure.reason });
}

const EXAMPLE = {
  replay: "The runner is fixed: deploy 4711",
  discard: "Test orders, agreed with the shop",
} as const;

const EFFECT = {
  replay:
    "A replayed call waits in the queue again, with its id and a new set of attempts. If the runner has already done this call, it does not run it again.",
  discard: "A discarded call ends without running, and its body is deleted. This cannot be undone.",
} as const;

/**
 * Shows the number of calls for each failure reason. While they are counted, keeps free the space for a few reasons, so
 * that the dialog does not change its size.
 */
function Preview({ run }: { run: Run | undefined }) {
  const codes = Object.entries(run?.by_code ?? {});
  return (
    <div class="by-code">
      {run?.by_code == null && <p class="muted">Counting</p>}
      {codes.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Failure</th>
              <th scope="col" class="number">
                Calls
              </th>
            </tr>
          </thead>
          <tbody>
            {codes.map(([code, calls]) => (
              <tr key={code}>
                <td>
                  {titleOf(code)} <code class="muted">{code}</code>
                </td>
                <td class="number">{count(calls)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
