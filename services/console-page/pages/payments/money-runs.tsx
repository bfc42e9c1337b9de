import { useState } from "preact/hooks";
import type { AuditView, BulkView, RefundCheckView } from "../../../../shared/console/bulk-operations.ts";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import { cancelRun, isUnderWay } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { Badge, NotDone, Notice, type Tone } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";

/** Bulk operations that ask the chain about many blocks, by their kind. */
type MoneyRun = { audit: AuditView; "refund-check": RefundCheckView };
type Kind = keyof MoneyRun;

export type MoneyRuns<K extends Kind = Kind> = {
  answer: Answer<unknown>;
  /** Undefined while it is not known, null if there is none. */
  newest: MoneyRun[K] | null | undefined;
  isUnderWay: boolean;
  /** Why the last change was not made. */
  refused: { title: string; refused: Refused } | undefined;
  /** Whether a change is under way. */
  isBusy: boolean;
  begin(): Promise<void>;
  cancel(): Promise<void>;
};

const EVERY_MS = 2000;
/** If it was missed. */
const RESULT_EVERY_MS = 30_000;

const BEGIN: { [K in Kind]: () => Promise<MoneyRun[K]> } = {
  audit: () => ask("POST", "api/v1/payments/audits", {}),
  "refund-check": () => ask("POST", "api/v1/payments/refund-checks", {}),
};

const isOf = <K extends Kind>(kind: K, view: BulkView): view is BulkView & MoneyRun[K] => view.kind === kind;

/** The newest of the runs of a kind, whoever began it, and how to begin another or end this one. */
export function useMoneyRuns<K extends Kind>(kind: K): MoneyRuns<K> {
  const answer = useAnswer("api/v1/bulk", { kind, limit: 1 }, { everyMs: EVERY_MS });
  const [refused, setRefused] = useState<MoneyRuns["refused"]>();
  const [isBusy, setBusy] = useState(false);
  const [begun, setBegun] = useState<MoneyRun[K] | undefined>();
  const listed = answer.data && (answer.data.runs.find((view) => isOf(kind, view)) ?? null);
  // Until it is listed, so that a second click begins no second one.
  const isUnlisted = begun !== undefined && (listed?.begun_at ?? "") < begun.begun_at;
  const last = isUnlisted ? begun : listed;
  // A list has no results. That of a run is asked for as often as the list while it is under way, and once it has ended.
  const turn = last?.ended_at == null ? (answer.at ?? 0) : Date.parse(last.ended_at);
  const asked = { run_id: last?.id ?? "" };
  const own = useAnswer(last == null ? undefined : "api/v1/bulk/{run_id}", asked, {
    everyMs: RESULT_EVERY_MS,
    turn,
  });
  const { data } = own;
  const isOwn = last != null && own.refused === undefined && data?.id === last.id && isOf(kind, data);
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
    isUnderWay: newest != null && isUnderWay(newest),
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

/** How far the newest is, by whom and since when, with what ends it; or why it stopped, or could not begin. */
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
      {refused !== undefined && <NotDone {...refused} />}
    </>
  );
}
