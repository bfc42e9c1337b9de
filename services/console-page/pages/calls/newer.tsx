import { useEffect } from "preact/hooks";
import type { FoundCall } from "../../api/calls.ts";
import { useAnswer } from "../../api/use-answer.ts";
import type { Paged } from "../../api/use-pages.ts";
import type { Query } from "../../url-fragment.ts";

/** Maximum number of new calls that the page counts. It reads only the newest calls for this. */
const COUNTED_MAX = 50;
const EVERY_MS = 3000;

type Props = {
  search: Query;
  list: Paged<FoundCall>;
  isLive: boolean;
  setLive(isLive: boolean): void;
  refresh(): void;
};

/**
 * Shows how many of the found calls are new or have changed since the list was read. In live mode it reloads the list
 * at once instead, until the user pauses that mode.
 */
export function Newer({ search, list, isLive, setLive, refresh }: Props) {
  const isListed = list.at !== undefined && list.refused === undefined;
  const path = isListed ? "api/v1/calls" : undefined;
  const answer = useAnswer(path, { ...search, limit: COUNTED_MAX }, { everyMs: EVERY_MS });
  const newer = countNewer(answer.isCurrent ? answer : {}, list);
  const { reload } = list;
  useEffect(() => {
    if (isLive && newer > 0) reload();
  }, [isLive, newer, reload]);
  return (
    <>
      {newer > 0 && !isLive && (
        <button type="button" class="primary" onClick={refresh}>
          {newer}
          {newer === COUNTED_MAX && " or more"} new
        </button>
      )}
      <button type="button" aria-pressed={isLive} onClick={() => setLive(!isLive)}>
        {isLive ? "Stop live" : "Start live"}
      </button>
    </>
  );
}

type Answered = { data?: { calls: readonly FoundCall[] } | undefined; at?: number | undefined };

/**
 * Counts the calls that are new or have changed since the list was read. Returns 0 if the answer is older than the
 * list. Compares every call in the answer with the list, not only those newer than its first one. A call that has just
 * ended may be missing for up to a second. When it appears, it may be older than the first call of the list.
 */
function countNewer({ data, at = 0 }: Answered, { items, isLoading, ...list }: Paged<FoundCall>) {
  if (isLoading || at <= (list.at ?? 0)) return 0;
  const listedAt = new Map(items.map((call) => [call.id, call.at]));
  return (data?.calls ?? []).filter((call) => call.at > (listedAt.get(call.id) ?? "")).length;
}
