import { useEffect, useState } from "preact/hooks";
import type { FoundCall } from "../../api/calls.ts";
import { useAnswer } from "../../api/use-answer.ts";
import type { Query } from "../../url-fragment.ts";

/** Further ones are not counted. */
const COUNTED_MAX = 50;
const EVERY_MS = 3000;

type Props = {
  search: Query;
  /** As listed, newest first. */
  listed: readonly FoundCall[];
  isLoading: boolean;
  reload: () => void;
};

/** Counts the calls of a search that are new or have changed since it was listed. Live, it lists them by itself until it is paused. */
export function Newer({ search, listed, isLoading, reload }: Props) {
  const [isLive, setLive] = useState(false);
  const answer = useAnswer("api/v1/calls", { ...search, limit: COUNTED_MAX }, { everyMs: EVERY_MS });
  const newest = listed[0]?.at ?? "";
  const found = answer.isCurrent ? (answer.data?.calls ?? []) : [];
  const newer = isLoading ? 0 : found.filter(({ at }) => at > newest).length;
  useEffect(() => {
    if (isLive && newer > 0) reload();
  }, [isLive, newer, reload]);
  return (
    <>
      {newer > 0 && !isLive && (
        <button type="button" class="primary" onClick={reload}>
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
