import { useEffect } from "preact/hooks";
import type { FoundCall } from "../../api/calls.ts";
import { useAnswer } from "../../api/use-answer.ts";
import type { Paged } from "../../api/use-pages.ts";
import type { Query } from "../../url-fragment.ts";

/** Limit on the number of new calls that the page counts. */
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
 * Counts the calls of a search that are new or have changed since the list was read. In live mode, reloads the list
 * instead, until the user pauses that mode.
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
 * list. Compares every call with the list, not only the newest. A call that has ended may appear up to a second later,
 * and may then be older than the newest listed call.
 */
function countNewer({ data, at = 0 }: Answered, { items, isLoading, ...list }: Paged<FoundCall>) {
  if (isLoading || at <= (list.at ?? 0)) return 0;
  const listedAt = new Map(items.map((call) => [call.id, call.at]));
  return (data?.calls ?? []).filter((call) => call.at > (listedAt.get(call.id) ?? "")).length;
}
