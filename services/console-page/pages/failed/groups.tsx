import { jobKeyOf } from "../../../../shared/call/job-ids.ts";
import type { FailedFilter, FailedGroup } from "../../api/failed.ts";
import { useMayOperate } from "../../api/session.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { JobName } from "../../ui/job-name.tsx";
import { count, counted } from "../../ui/number.ts";
import { Sparkline } from "../../ui/sparkline.tsx";
import { Ago } from "../../ui/time.tsx";
import { titleOf, Why } from "../../ui/why.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";
import type { Act } from "./act.tsx";

type Props = {
  groups: readonly FailedGroup[] | undefined;
  /** Filter with which the console counted the groups. */
  filter: FailedFilter;
  onAct: (act: Act) => void;
};

/**
 * Lists one row for each combination of job, origin and reason, those with the most calls first. A click on a row shows
 * its calls.
 */
export function Groups({ groups, filter, onAct }: Props) {
  const mayOperate = useMayOperate();
  const [query] = useQuery();
  const isChosen = (group: FailedGroup): boolean =>
    query.get("job") === jobKeyOf(group) &&
    query.get("code") === group.code &&
    query.get("origin") === group.origin;
  const linkOf = (group: FailedGroup): string => {
    const { code, origin } = group;
    const own = isChosen(group) ? { job: "", code: "", origin: "" } : { job: jobKeyOf(group), code, origin };
    return linkTo(["failed"], { ...Object.fromEntries(query), ...own });
  };
  const act = (action: Act["action"], { origin, service_id, job_id, code }: FailedGroup) =>
    onAct({ action, selection: { filter: { ...filter, origin, service_id, job_id, code } } });
  const sorted = [...(groups ?? [])].sort((a, b) => b.count - a.count);
  const columns: Column<FailedGroup>[] = [
    {
      title: "Reason",
      sortBy: ({ code }) => titleOf(code),
      class: "whole",
      cell: (group) => (
        <a href={linkOf(group)} aria-current={isChosen(group)} class="row-link">
          <Why code={group.code} reason={group.newest_reason} />
        </a>
      ),
    },
    {
      title: "Job",
      sortBy: jobKeyOf,
      cell: (group) => (
        <>
          <JobName job={jobKeyOf(group)} /> <span class="muted">{group.origin}</span>
        </>
      ),
    },
    {
      title: "Calls",
      class: "number strong",
      sortBy: ({ count: calls }) => calls,
      cell: (group) => count(group.count),
    },
    { title: "Last 24 hours", class: "wide", cell: ({ by_hour }) => <LastDay values={by_hour} /> },
    {
      title: "Oldest",
      class: "number",
      sortBy: ({ oldest_at }) => Date.parse(oldest_at),
      cell: ({ oldest_at }) => <Ago at={oldest_at} />,
    },
    {
      title: "Newest",
      class: "number",
      sortBy: ({ newest_at }) => Date.parse(newest_at),
      cell: ({ newest_at }) => <Ago at={newest_at} />,
    },
    ...(mayOperate ? [actions(act)] : []),
  ];
  return (
    <section class="card failed-groups" aria-label="By job and reason">
      <DataTable
        columns={columns}
        items={sorted}
        keyOf={(group) => `${group.origin} ${jobKeyOf(group)} ${group.code}`}
        isChosen={isChosen}
      />
    </section>
  );
}

function actions(act: (action: Act["action"], group: FailedGroup) => void): Column<FailedGroup> {
  return {
    title: "Actions",
    isTitleHidden: true,
    class: "whole",
    cell: (group) => (
      <div class="buttons">
        <button type="button" onClick={() => act("discard", group)}>
          Discard…
        </button>
        <button type="button" onClick={() => act("replay", group)}>
          Replay…
        </button>
      </div>
    ),
  };
}

function LastDay({ values }: { values: readonly number[] }) {
  const calls = values.reduce((sum, each) => sum + each, 0);
  return (
    <Sparkline values={values} tone="bad" label={`${counted(calls, "call")} failed in the last 24 hours`} />
  );
}
