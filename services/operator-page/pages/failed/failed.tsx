import { useCallback, useState } from "preact/hooks";
import type { FailedFilter, FailedGroup } from "../../api/failed.ts";
import { useWhenFailedChange } from "../../api/overview.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { goTo, linkTo } from "../../route.ts";
import { Live, WhyNot } from "../../ui/live.tsx";
import { Empty, Notice } from "../../ui/notice.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { type Act, ActDialog } from "./act.tsx";
import { Filters, isFiltered, useFilter } from "./filters.tsx";
import { Groups } from "./groups.tsx";
import { FailedList } from "./list.tsx";
import { Runs } from "./runs.tsx";

/** Changes are told of sooner, but not those among as many calls as before. */
const EVERY_MS = 15_000;

/** What failed and waits for an operator: why, since when, and what to do with it. */
export function FailedPage() {
  const chosen = useFilter();
  if (typeof chosen !== "string") return <Chosen filter={chosen} />;
  const all = { name: "Show every failed call", run: () => goTo(linkTo(["failed"])) };
  return (
    <>
      <PageHead title="Failed calls" />
      <Notice tone="bad" title="This address chooses no calls" action={all}>
        {chosen} Nothing is listed, and nothing can be done from here.
      </Notice>
    </>
  );
}

function Chosen({ filter }: { filter: FailedFilter }) {
  const [act, setAct] = useState<Act | undefined>();
  const [turn, setTurn] = useState(0);
  const { since, endpoint } = filter;
  const groups = useAnswer<{ groups: FailedGroup[] }>(
    "api/v1/failed/groups",
    { since, endpoint },
    { everyMs: EVERY_MS, turn },
  );
  useWhenFailedChange(groups.reload);
  const found = groups.data?.groups;
  const hasNone = found !== undefined && found.length === 0;
  const lookAgain = useCallback(() => setTurn((before) => before + 1), []);
  const close = () => {
    setAct(undefined);
    lookAgain();
  };
  return (
    <>
      <PageHead title="Failed calls" live={<Live answer={groups} />} />
      <WhyNot answer={groups} />
      <Runs turn={turn} onEnd={lookAgain} />
      <Filters filter={filter} groups={found ?? []} />
      {hasNone && !isFiltered(filter) ? (
        <Empty title="No call has failed">
          A call is shown here when its runner refuses it, or when its attempts are spent. Nothing is to be
          done. What comes in now is under Flow.
        </Empty>
      ) : (
        <>
          <Groups groups={found} />
          <FailedList filter={filter} turn={turn} onAct={setAct} />
        </>
      )}
      {act !== undefined && <ActDialog act={act} onClose={close} />}
    </>
  );
}
