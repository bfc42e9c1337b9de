import { useState } from "preact/hooks";
import { ask, type Refused, toRefused } from "../../api/ask.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { Badge, Notice, type Tone } from "../../ui/notice.tsx";
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
  refused: Refused | undefined;
  begin(): Promise<void>;
};

const UNDER_WAY: readonly State[] = ["waiting", "running", "cancelling"];

/** The newest of the runs that are listed at a path, whoever began it, and how to begin another. */
export function useMoneyRuns<Result>(path: string): MoneyRuns<Result> {
  const answer = useAnswer<{ runs: MoneyRun<Result>[] }>(path, {}, { everyMs: 2000 });
  const [refused, setRefused] = useState<Refused | undefined>();
  const newest = answer.data && (answer.data.runs[0] ?? null);
  const begin = async () => {
    try {
      await ask("POST", path, { body: {} });
      setRefused(undefined);
      answer.reload();
    } catch (error) {
      setRefused(toRefused(error));
    }
  };
  const isUnderWay = newest != null && UNDER_WAY.includes(newest.state);
  return { answer, newest, isUnderWay, refused, begin };
}

export function BeginRun({ runs, verb }: { runs: MoneyRuns<unknown>; verb: string }) {
  const mayOperate = useMayOperate();
  const { isUnderWay, begin } = runs;
  if (!mayOperate) return null;
  return (
    <button type="button" onClick={begin} disabled={isUnderWay}>
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

/** How far the newest is, by whom and since when; or why it stopped, or could not begin. */
export function RunState({ runs: { newest, refused } }: { runs: MoneyRuns<unknown> }) {
  return (
    <>
      {newest === undefined && <p class="muted">Loading</p>}
      {newest != null && (
        <p>
          <Badge tone={TONES[newest.state]}>{newest.state}</Badge> begun <Ago at={newest.begun_at} /> by{" "}
          {newest.by}
        </p>
      )}
      {newest?.failure != null && (
        <Notice tone="bad" title="It stopped">
          {newest.failure.reason}
        </Notice>
      )}
      {refused !== undefined && (
        <Notice tone="bad" title="It was not begun">
          {refused.detail}
        </Notice>
      )}
    </>
  );
}
