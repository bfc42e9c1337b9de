import { type FailedGroup, jobOf } from "../../api/failed.ts";
import { linkTo, useQuery } from "../../route.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count, counted } from "../../ui/number.ts";
import { Sparkline } from "../../ui/sparkline.tsx";
import { Ago } from "../../ui/time.tsx";
import { Why } from "../../ui/why.tsx";

/** One line for each job and reason, the most calls first. Choosing one shows its calls. */
export function Groups({ groups }: { groups: readonly FailedGroup[] | undefined }) {
  const [query] = useQuery();
  const isChosen = (group: FailedGroup): boolean =>
    query.get("job") === jobOf(group) &&
    query.get("code") === group.code &&
    query.get("origin") === group.origin;
  const linkOf = (group: FailedGroup): string => {
    const { code, origin } = group;
    const own = isChosen(group) ? { job: "", code: "", origin: "" } : { job: jobOf(group), code, origin };
    return linkTo(["failed"], { ...Object.fromEntries(query), ...own });
  };
  const sorted = [...(groups ?? [])].sort((a, b) => b.count - a.count);
  const columns: Column<FailedGroup>[] = [
    {
      title: "Reason",
      class: "whole",
      cell: (group) => (
        <a href={linkOf(group)} aria-current={isChosen(group)} class="row-link">
          <Why code={group.code} reason={group.newest_reason} />
        </a>
      ),
    },
    {
      title: "Job",
      cell: (group) => (
        <>
          <a href={linkTo(["endpoints"], { view: "jobs", job: jobOf(group) })}>{jobOf(group)}</a>{" "}
          <span class="muted">{group.origin}</span>
        </>
      ),
    },
    { title: "Calls", class: "number strong", cell: (group) => count(group.count) },
    { title: "Last 24 hours", class: "wide", cell: ({ by_hour }) => <LastDay values={by_hour} /> },
    { title: "Newest", class: "number", cell: ({ newest_at }) => <Ago at={newest_at} /> },
  ];
  return (
    <section class="card" aria-label="By job and reason">
      <DataTable
        columns={columns}
        items={sorted}
        keyOf={(group) => `${group.origin} ${jobOf(group)} ${group.code}`}
        isChosen={isChosen}
      />
    </section>
  );
}

function LastDay({ values }: { values: readonly number[] }) {
  const calls = values.reduce((sum, each) => sum + each, 0);
  return (
    <Sparkline values={values} tone="bad" label={`${counted(calls, "call")} failed in the last 24 hours`} />
  );
}
