import { useCallback, useEffect, useState } from "preact/hooks";
import { type FailedCall, type FailedFilter, readFailed } from "../../api/failed.ts";
import { useWhenFailedChange } from "../../api/overview.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { usePages } from "../../api/use-pages.ts";
import { linkTo } from "../../route.ts";
import { shortened } from "../../ui/copy.tsx";
import { WhyNot } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { Time } from "../../ui/time.tsx";
import { NARROW, useMedia } from "../../ui/use-media.ts";
import { VirtualRows } from "../../ui/virtual-rows.tsx";
import { titleOf, Why } from "../../ui/why.tsx";
import type { Act } from "./act.tsx";

const AT_ONCE = 200;

type Props = { filter: FailedFilter; turn: number; onAct: (act: Act) => void };

/** The calls that the filters choose, newest first, however many. */
export function FailedList({ filter, turn, onAct }: Props) {
  const question = JSON.stringify([filter, turn]);
  const read = async (cursor: string | undefined, signal: AbortSignal) => {
    const { calls, next } = await readFailed({ ...filter, cursor, limit: AT_ONCE }, signal);
    return { items: calls, next };
  };
  const list = usePages<FailedCall>(JSON.stringify(filter), read, { turn });
  const counts = useAnswer("api/v1/failed/count", filter, { everyMs: 15_000, turn });
  useWhenFailedChange(counts.reload);
  const [more, forget] = useMoreSince(question, counts);
  const refresh = () => {
    forget();
    list.reload();
  };
  const [selected, select] = useSelection(question);
  const isNarrow = useMedia(NARROW);
  const { items } = list;
  const matched = counts.isCurrent ? counts.data?.matched : undefined;
  const total = matched ?? (list.isWhole ? items.length : undefined);
  const whyNot = <WhyNot answer={{ ...list, reload: list.again }} title="Calls unavailable" />;
  if (list.refused !== undefined && items.length === 0) return whyNot;
  const row = (index: number) => {
    const call = items[index];
    return call === undefined ? null : (
      <Row call={call} isNarrow={isNarrow} isSelected={selected.has(call.id)} onSelect={select} />
    );
  };
  return (
    <section aria-label="Failed calls" class="card">
      {!list.isCut && whyNot}
      <Choice
        filter={filter}
        total={total}
        selected={selected}
        onAct={onAct}
        more={more}
        onClear={() => select()}
        onRefresh={refresh}
      />
      <Head />
      <VirtualRows
        label="Failed calls, newest first"
        count={items.length}
        total={total}
        rowHeight={isNarrow ? 84 : 54}
        row={row}
        onEnd={list.more}
      />
      {items.length === 0 && !list.isLoading && (
        <Empty title="No matching calls">Change or clear a filter above.</Empty>
      )}
      {list.isLoading && <p class="card-body muted">Loading</p>}
      {list.isCut && whyNot}
    </section>
  );
}

/** How many more (or fewer) calls match than when the list was read; and how to begin anew with what there is now. */
function useMoreSince(
  question: string,
  { data, isCurrent }: Answer<{ matched: number }>,
): [more: number, forget: () => void] {
  const [base, setBase] = useState<number | undefined>();
  useEffect(() => setBase(undefined), [question]);
  useEffect(() => {
    if (base === undefined && isCurrent) setBase(data?.matched);
  }, [base, isCurrent, data]);
  const more = base === undefined || data === undefined ? 0 : data.matched - base;
  return [more, () => setBase(undefined)];
}

/** The ids that are ticked. Another question begins with none. */
function useSelection(question: string): [ReadonlySet<string>, (id?: string) => void] {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => setSelected(new Set()), [question]);
  useEffect(() => {
    const clear = ({ key }: KeyboardEvent) => {
      if (key === "Escape" && document.querySelector("dialog[open]") === null) setSelected(new Set());
    };
    window.addEventListener("keydown", clear);
    return () => window.removeEventListener("keydown", clear);
  }, []);
  const toggle = useCallback((id?: string) => {
    setSelected((before) => {
      if (id === undefined) return new Set();
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  }, []);
  return [selected, toggle];
}

type ChoiceProps = {
  filter: FailedFilter;
  /** How many match; undefined if they are not counted. */
  total: number | undefined;
  selected: ReadonlySet<string>;
  onAct: (act: Act) => void;
  onClear: () => void;
  /** So many more match than are listed. */
  more: number;
  onRefresh: () => void;
};

/** How many are chosen, and what can be done with them. It stays in sight while the list scrolls. */
function Choice({ filter, total, selected, onAct, onClear, more, onRefresh }: ChoiceProps) {
  const mayOperate = useMayOperate();
  const some = selected.size > 0;
  const hasNone = !some && total === 0;
  const act = (action: Act["action"]) =>
    onAct({ action, selection: some ? { ids: [...selected] } : { filter } });
  return (
    <div class="card-head choice">
      <h2 aria-live="polite">{some ? `${count(selected.size)} selected` : callsText(total)}</h2>
      {some && (
        <button type="button" class="link" onClick={onClear}>
          Clear selection
        </button>
      )}
      {more !== 0 && (
        <button type="button" class="link" onClick={onRefresh}>
          {more > 0 ? `Show ${count(more)} new` : "List changed, refresh"}
        </button>
      )}
      {mayOperate ? (
        <div class="buttons">
          <button type="button" disabled={hasNone} onClick={() => act("discard")}>
            Discard {some ? count(selected.size) : "all"}…
          </button>
          <button type="button" class="primary" disabled={hasNone} onClick={() => act("replay")}>
            Replay {some ? count(selected.size) : "all"}…
          </button>
        </div>
      ) : (
        <span class="muted small">Viewers cannot replay or discard</span>
      )}
    </div>
  );
}

function callsText(total: number | undefined): string {
  return total === undefined ? "Calls" : counted(total, "call");
}

/** For the eye: each row says the same of itself. */
function Head() {
  return (
    <div class="failed-row row-head" aria-hidden="true">
      <span />
      <span>Call</span>
      <span>Reason</span>
      <span>Origin</span>
      <span>Job</span>
      <span>Attempts</span>
      <span>Failed</span>
    </div>
  );
}

type RowProps = {
  call: FailedCall;
  isNarrow: boolean;
  isSelected: boolean;
  onSelect: (id: string) => void;
};

function Row({ call, isNarrow, isSelected, onSelect }: RowProps) {
  const { id, endpoint, origin, service_id, job_id, attempts, failed_at, code, reason } = call;
  return (
    <div class={`failed-row ${isSelected ? "chosen" : ""}`}>
      <input
        type="checkbox"
        checked={isSelected}
        onChange={() => onSelect(id)}
        aria-label={`Select ${id}, ${titleOf(code)}`}
      />
      <a href={linkTo(["calls", id])} class="mono" title={id}>
        {isNarrow ? shortened(id, 8, 4) : shortened(id)}
      </a>
      <Why code={code} reason={reason} />
      <span class="cut" title={endpoint ?? origin}>
        {endpoint ?? origin}
      </span>
      <span>
        <span class="label">job </span>
        {service_id}/{job_id}
      </span>
      <span>
        {attempts}
        <span class="label"> {attempts === 1 ? "attempt" : "attempts"}</span>
      </span>
      <Time at={failed_at} />
    </div>
  );
}
