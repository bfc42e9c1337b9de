import { useState } from "preact/hooks";
import type { AuditView, BulkView, RefundCheckView } from "../../../../shared/console/bulk-operations.ts";
import { type Refused, request, toRefused } from "../../api/ask.ts";
import { cancelRun, isRunning } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { ActionFailed, Badge, Notice, type Tone } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";

/**
 * Views of the two kinds of bulk operations that read many blocks of the chain. `audit` matches payments with
 * transfers, and `refund-check` searches for refunds.
 */
type MoneyRun = { audit: AuditView; "refund-check": RefundCheckView };
type Kind = keyof MoneyRun;

export type MoneyRuns<K extends Kind = Kind> = {
  answer: Answer<unknown>;
  /** The newest operation. Undefined until the console has answered, and null if no operation was started. */
  newest: MoneyRun[K] | null | undefined;
  isUnderWay: boolean;
  /** The reason why the last request to start or cancel failed. */
  refused: { title: string; refused: Refused } | undefined;
  /** Whether a request to start or cancel is in flight. */
  isBusy: boolean;
  begin(): Promise<void>;
  cancel(): Promise<void>;
};

const EVERY_MS = 2000;
/**
 * Interval at which the result of an ended operation is read again. The page has read it when the operation ended, but
 * that request may have failed.
 */
const RESULT_EVERY_MS = 30_000;

const BEGIN: { [K in Kind]: () => Promise<MoneyRun[K]> } = {
  audit: () => request("POST", "api/v1/payments/audits", {}),
  "refund-check": () => request("POST", "api/v1/payments/refund-checks", {}),
};

const isOfKind = <K extends Kind>(kind: K, view: BulkView): view is BulkView & MoneyRun[K] =>
  view.kind === kind;

/**
 * Returns the newest operation of a kind, no matter which operator started it. Also returns functions that start
 * another operation or cancel this one.
 */
export function useMoneyRuns<K extends Kind>(kind: K): MoneyRuns<K> {
  const answer = useAnswer("api/v1/bulk", { kind, limit: 1 }, { everyMs: EVERY_MS });
  const [refused, setRefused] = useState<MoneyRuns["refused"]>();
  const [isBusy, setBusy] = useState(false);
  const [begun, setBegun] = useState<MoneyRun[K] | undefined>();
  const listed = answer.data && (answer.data.runs.find((view) => isOfKind(kind, view)) ?? null);
  // True from the start of a new operation until the list contains it. The page then shows it as running, so that a
  // second click does not start another one.
  const isUnlisted = begun !== undefined && (listed?.begun_at ?? "") < begun.begun_at;
  const last = isUnlisted ? begun : listed;
  // The list does not contain results, so the result is read by a request of its own. `turn` repeats this request
  // whenever the list was read while the operation runs, and once more at its end.
  const turn = last?.ended_at == null ? (answer.at ?? 0) : Date.parse(last.ended_at);
  const asked = { run_id: last?.id ?? "" };
  const own = useAnswer(last == null ? undefined : "api/v1/bulk/{run_id}", asked, {
    everyMs: RESULT_EVERY_MS,
    turn,
  });
  const { data } = own;
  const isOwn = last != null && own.refused === undefined && data?.id === last.id && isOfKind(kind, data);
  const newest: MoneyRun[K] | null | undefined = isOwn ? data : last;
  const change = (title: string, act: () => Promise<void>) => async () => {
    setBusy(true);
    try {
      await act();
      setRefused(undefined);
    } catch (error) {
      setRefused({ title, refused: toRefused(error) });
    }
    answer.reload();
    setBusy(false);
  };
  return {
    answer,
    newest,
    refused,
    isBusy,
    isUnderWay: newest != null && isRunning(newest),
    begin: change("Nothing was started", async () => setBegun(await BEGIN[kind]())),
    cancel: change("Nothing was cancelled", async () => {
      if (newest != null) await cancelRun(newest);
    }),
  };
}

export function BeginRun({ runs, verb }: { runs: MoneyRuns; verb: string }) {
  const mayOperate = useMayOperate();
  const { isUnderWay, isBusy, begin } = runs;
  if (!mayOperate) return null;
  return (
    <button type="button" onClick={begin} disabled={isUnderWay || isBusy}>
      {isUnderWay ? "Running" : verb}
    </button>
  );
}

const TONES: Record<BulkView["state"], Tone> = {
  waiting: "accent",
  running: "accent",
  cancelling: "warn",
  done: "good",
  cancelled: "warn",
  stopped: "bad",
};

/**
 * Shows the state of the newest operation, its operator and start, and a button that cancels it. If it stopped early or
 * could not start, shows why.
 */
export function RunState({ runs }: { runs: MoneyRuns }) {
  const mayOperate = useMayOperate();
  const { answer, newest, isUnderWay, isBusy, refused, cancel } = runs;
  return (
    <>
      {newest === undefined && answer.refused === undefined && <p class="muted">Loading</p>}
      {newest != null && (
        <div class="run-line">
          <Badge tone={TONES[newest.state]}>{newest.state === "waiting" ? "starting" : newest.state}</Badge>
          <span>
            started <Ago at={newest.begun_at} /> by {newest.by}
          </span>
          {mayOperate && isUnderWay && (
            <button type="button" onClick={cancel} disabled={isBusy || newest.state === "cancelling"}>
              Cancel
            </button>
          )}
        </div>
      )}
      {newest?.failure != null && (
        <Notice tone="bad" title="Operation stopped">
          {newest.failure.reason}
        </Notice>
      )}
      {refused !== undefined && <ActionFailed {...refused} />}
    </>
  );
}
