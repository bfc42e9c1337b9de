import { useCallback, useState } from "preact/hooks";
import type { FailedFilter } from "../../api/failed.ts";
import { useWhenFailedChange } from "../../api/overview.ts";
import { type Answer, useAnswer } from "../../api/use-answer.ts";
import { Live, StaleNotice } from "../../ui/live.tsx";
import { Empty, Notice } from "../../ui/notice.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { useNow } from "../../ui/time.tsx";
import { goTo, linkTo } from "../../url-fragment.ts";
import { type Act, ActDialog } from "./act.tsx";
import { Filters, isFiltered, useFilter } from "./filters.tsx";
import { Groups } from "./groups.tsx";
import { FailedList } from "./list.tsx";
import { Runs } from "./runs.tsx";

/** Interval between polls. The page also polls at once when the overview shows another number of failed calls. */
const EVERY_MS = 15_000;

/** Shows the failed calls with their reasons and times, and the actions that an operator can take. */
export function FailedPage() {
  const chosen = useFilter();
  if (typeof chosen !== "string") return <Chosen filter={chosen} />;
  const all = { name: "Show all failed calls", run: () => goTo(linkTo(["failed"])) };
  return (
    <>
      <PageHead title="Failed calls" />
      <Notice tone="bad" title="Invalid filter" action={all}>
        {chosen} No calls are listed, so none can be replayed or discarded.
      </Notice>
    </>
  );
}

function Chosen({ filter }: { filter: FailedFilter }) {
  const [act, setAct] = useState<Act | undefined>();
  const [turn, setTurn] = useState(0);
  const { since, endpoint, text } = filter;
  const groups = useAnswer("api/v1/failed/groups", { since, endpoint, text }, { everyMs: EVERY_MS, turn });
  useWhenFailedChange(groups.reload);
  // After the filter has changed, `data` may still be the answer for the earlier filter, and is not shown.
  const found = groups.isCurrent ? groups.data?.groups : undefined;
  const hasNone = found?.length === 0;
  const lookAgain = useCallback(() => setTurn((before) => before + 1), []);
  const close = () => {
    setAct(undefined);
    lookAgain();
  };
  return (
    <>
      <PageHead title="Failed calls" live={<Live answer={groups} />} />
      <StaleNotice answer={groups} />
      <Runs turn={turn} onEnd={lookAgain} />
      <Filters filter={filter} groups={groups.data?.groups ?? []} />
      {hasNone && !isFiltered(filter) ? (
        <NoneFailed groups={groups} />
      ) : (
        <>
          <Groups groups={found} filter={{ since, endpoint, text }} onAct={setAct} />
          <FailedList filter={filter} turn={turn} onAct={setAct} />
        </>
      )}
      {act !== undefined && <ActDialog act={act} onClose={close} />}
    </>
  );
}

/**
 * Says that there are no failed calls. If the answer is outdated, calls may have failed since then, so it says that the
 * list cannot be read.
 */
function NoneFailed({ groups: { refused, isOld } }: { groups: Answer<unknown> }) {
  const now = useNow(1000);
  if (refused !== undefined || isOld(now))
    return <Empty title="Failed calls cannot be read now">The last update listed no failed calls.</Empty>;
  return (
    <Empty title="No failed calls">
      A call is listed here when its runner refuses it, or when all its attempts have failed. See Overview for
      current calls.
    </Empty>
  );
}
