import { useEffect, useState } from "preact/hooks";
import { jobKeyOf } from "../../../../shared/call/job-ids.ts";
import { type FailedCall, type FailedFilter, readFailed } from "../../api/failed.ts";
import { useJobTitle } from "../../api/names.ts";
import { useWhenFailedChange } from "../../api/overview.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { usePages } from "../../api/use-pages.ts";
import { shortened } from "../../ui/copy.tsx";
import { StaleNotice } from "../../ui/live.tsx";
import { Empty } from "../../ui/notice.tsx";
import { count, counted } from "../../ui/number.ts";
import { SelectAll, type Selection, useSelection } from "../../ui/selection.tsx";
import { SortButton, type Sorting, type SortKey, sorted, useSorting } from "../../ui/sort.tsx";
import { Time } from "../../ui/time.tsx";
import { NARROW, useMedia } from "../../ui/use-media.ts";
import { VirtualRows } from "../../ui/virtual-rows.tsx";
import { titleOf, Why } from "../../ui/why.tsx";
import { linkTo } from "../../url-fragment.ts";
import type { Act } from "./act.tsx";

const AT_ONCE = 200;

type Props = { filter: FailedFilter; turn: number; onAct: (act: Act) => void };

/** Lists all calls that match the filters, newest first. */
export function FailedList({ filter, turn, onAct }: Props) {
  const listKey = JSON.stringify([filter, turn]);
  const read = async (cursor: string | undefined, signal: AbortSignal) => {
    const { calls, next } = await readFailed({ ...filter, cursor, limit: AT_ONCE }, signal);
    return { items: calls, next };
  };
  const list = usePages<FailedCall>(JSON.stringify(filter), read, { turn });
  const counts = useAnswer("api/v1/failed/count", filter, { everyMs: 15_000, turn });
  useWhenFailedChange(counts.reload);
  const [more, forget] = useMoreSince(listKey, counts);
  const refresh = () => {
    forget();
    list.reload();
  };
  const [sorting, sort] = useSorting();
  const items = sorted(list.items, SORTS[sorting?.by ?? ""], sorting);
  const selection = useSelection(
    listKey,
    items.map(({ id }) => id),
  );
  const isNarrow = useMedia(NARROW);
  const matched = counts.isCurrent ? counts.data?.matched : undefined;
  const total = matched ?? (list.isWhole ? items.length : undefined);
  const whyNot = <StaleNotice answer={{ ...list, reload: list.again }} title="Calls unavailable" />;
  if (list.refused !== undefined && items.length === 0) return whyNot;
  const row = (index: number) => {
    const call = items[index];
    return call === undefined ? null : (
      <Row
        call={call}
        isNarrow={isNarrow}
        isSelected={selection.selected.has(call.id)}
        onSelect={selection.toggle}
      />
    );
  };
  return (
    <section aria-label="Failed calls" class="card">
      {!list.isCut && whyNot}
      <Choice {...{ filter, total, selection, onAct, more }} listed={items.length} onRefresh={refresh} />
      <Head sorting={sorting} onSort={sort} />
      {sorting !== undefined && !list.isWhole && (
        <p class="card-body muted small">
          Only the {count(items.length)} newest calls are sorted. To sort all, set a filter that fewer calls
          match.
        </p>
      )}
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

/**
 * Returns how many more calls match the filter now than when the list was read. Also returns a function to call when
 * the list is read again: it makes the current number the new basis of the comparison.
 */
function useMoreSince(
  listKey: string,
  { data, isCurrent }: Answer<{ matched: number }>,
): [more: number, forget: () => void] {
  const [base, setBase] = useState<number | undefined>();
  useEffect(() => setBase(undefined), [listKey]);
  useEffect(() => {
    if (base === undefined && isCurrent) setBase(data?.matched);
  }, [base, isCurrent, data]);
  const more = base === undefined || data === undefined ? 0 : data.matched - base;
  return [more, () => setBase(undefined)];
}

type ChoiceProps = {
  filter: FailedFilter;
  /** Number of calls that match the filter. Undefined until they are counted. */
  total: number | undefined;
  selection: Selection;
  listed: number;
  onAct: (act: Act) => void;
  /** Number of matching calls that are newer than the list. */
  more: number;
  onRefresh: () => void;
};

/** Shows the number of selected calls, and the actions on them. It stays visible while the list scrolls. */
function Choice({ filter, total, selection, listed, onAct, more, onRefresh }: ChoiceProps) {
  const { selected, clear } = selection;
  const mayOperate = useMayOperate();
  const some = selected.size > 0;
  const hasNone = !some && total === 0;
  const act = (action: Act["action"]) =>
    onAct({ action, selection: some ? { ids: [...selected] } : { filter } });
  return (
    <div class="card-head choice">
      <SelectAll selection={selection} listed={listed} of="calls" />
      <h2 aria-live="polite">{some ? `${count(selected.size)} selected` : callsText(total)}</h2>
      {some && (
        <button type="button" class="link" onClick={clear}>
          Clear selection
        </button>
      )}
      {more !== 0 && (
        <button type="button" class="link" onClick={onRefresh}>
          {more > 0
            ? `Show ${count(more)} new`
            : `${counted(-more, "listed call is", "listed calls are")} no longer failed. Refresh`}
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

/** Sort keys of the list, by heading. */
const SORTS: Readonly<Record<string, SortKey<FailedCall>>> = {
  Reason: ({ code, reason }) => `${titleOf(code)} ${reason}`,
  Origin: ({ endpoint, origin }) => endpoint ?? origin,
  Job: jobKeyOf,
  Attempts: ({ attempts }) => attempts,
  Failed: ({ failed_at }) => Date.parse(failed_at),
};

type HeadProps = { sorting: Sorting | undefined; onSort: (by: string) => void };

function Head(props: HeadProps) {
  return (
    <div class="failed-row row-head">
      <span />
      <span>Call</span>
      {Object.keys(SORTS).map((title) => (
        <SortButton key={title} title={title} {...props} />
      ))}
    </div>
  );
}

type RowProps = {
  call: FailedCall;
  isNarrow: boolean;
  isSelected: boolean;
  onSelect: Selection["toggle"];
};

function Row({ call, isNarrow, isSelected, onSelect }: RowProps) {
  const titleOfJob = useJobTitle();
  const { id, endpoint, origin, attempts, failed_at, code, reason } = call;
  return (
    <div class={`failed-row ${isSelected ? "chosen" : ""}`}>
      <input
        type="checkbox"
        checked={isSelected}
        onClick={({ shiftKey }) => onSelect(id, shiftKey)}
        aria-label={`Select ${id}, ${titleOf(code)}`}
      />
      <a href={linkTo(["calls", id])} class="mono" title={id}>
        {isNarrow ? shortened(id, 8, 4) : shortened(id)}
      </a>
      <Why code={code} reason={reason} />
      <span class="cut" title={endpoint ?? origin}>
        {endpoint ?? origin}
      </span>
      <span class="job-cell" title={titleOfJob(jobKeyOf(call))}>
        <span class="label">job </span>
        {titleOfJob(jobKeyOf(call))}
      </span>
      <span>
        {attempts}
        <span class="label"> {attempts === 1 ? "attempt" : "attempts"}</span>
      </span>
      <Time at={failed_at} />
    </div>
  );
}
