import { useState } from "preact/hooks";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import { RUNS, runPath } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { Badge, NotDone, Notice, type Tone } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";

type State = "waiting" | "running" | "cancelling" | "done" | "stopped" | "cancelled";

/** Work of the service's that asks the chain about many blocks, as far as it is. */
export type MoneyRun<Result> = {
  id: string;
  state: State;
  by: string;
  begun_at: string;
  ended_at: string | null;
  failure: { code: string; reason: string } | null;
  result: Result | null;
};

export type MoneyRuns<Result> = {
  answer: Answer<unknown>;
  /** Undefined while it is not known, null if there is none. */
  newest: MoneyRun<Result> | null | undefined;
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

const UNDER_WAY: readonly State[] = ["waiting", "running", "cancelling"];

const BEGIN = { audit: "api/v1/payments/audits", "refund-check": "api/v1/payments/refund-checks" } as const;

/** The newest of the runs of a kind, whoever began it, and how to begin another or end this one. */
export function useMoneyRuns<Result>(kind: keyof typeof BEGIN): MoneyRuns<Result> {
  const answer = useAnswer<{ runs: MoneyRun<Result>[] }>(RUNS, { kind, limit: 1 }, { everyMs: EVERY_MS });
  const [refused, setRefused] = useState<MoneyRuns<Result>["refused"]>();
  const [isBusy, setBusy] = useState(false);
  const [begun, setBegun] = useState<MoneyRun<Result> | undefined>();
  const listed = answer.data && (answer.data.runs[0] ?? null);
  // Until it is listed, so that a second click begins no second one.
  const isUnlisted = begun !== undefined && (listed?.begun_at ?? "") < begun.begun_at;
  const last = isUnlisted ? begun : listed;
  // A list has no results. That of a run is asked for as often as the list while it is under way, and once it has ended.
  const turn = last?.ended_at == null ? (answer.at ?? 0) : Date.parse(last.ended_at);
  const ownPath = last == null ? undefined : runPath(last);
  const own = useAnswer<MoneyRun<Result>>(ownPath, {}, { everyMs: RESULT_EVERY_MS, turn });
  const isOwn = last != null && own.refused === undefined && own.data?.id === last.id;
  const newest = isOwn ? own.data : last;
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
    ...{ answer, newest, refused, isBusy },
    isUnderWay: newest != null && UNDER_WAY.includes(newest.state),
    begin: change("Nothing was started", async () => setBegun(await ask("POST", BEGIN[kind], { body: {} }))),
    cancel: change("Nothing was cancelled", async () => {
      if (newest != null) await ask("DELETE", runPath(newest));
    }),
  };
}

export function BeginRun({ runs, verb }: { runs: MoneyRuns<unknown>; verb: string }) {
  const mayOperate = useMayOperate();
  const { isUnderWay, isBusy, begin } = runs;
  if (!mayOperate) return null;
  return (
    <button type="button" onClick={begin} disabled={isUnderWay || isBusy}>
      {isUnderWay ? "Running" : verb}
    </button>
  );
}

const TONES: Record<State, Tone> = {
  waiting: "accent",
  running: "accent",
  cancelling: "warn",
  done: "good",
  cancelled: "warn",
  stopped: "bad",
};

/** How far the newest is, by whom and since when, with what ends it; or why it stopped, or could not begin. */
export function RunState({ runs }: { runs: MoneyRuns<unknown> }) {
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
