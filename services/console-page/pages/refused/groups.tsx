import type { RejectedGroup } from "../../api/jobs.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count } from "../../ui/number.ts";
import { Ago } from "../../ui/time.tsx";
import { titleOf, Why } from "../../ui/why.tsx";
import { linkTo, useQuery } from "../../url-fragment.ts";

/** Returns the query parameters that filter the page by one group. */
function queryOf({ endpoint, code, reason }: RejectedGroup) {
  return { endpoint: endpoint ?? undefined, unknown: endpoint === null ? "true" : undefined, code, reason };
}

/**
 * Lists one row for each combination of endpoint and reason. A click on a row shows only its requests, and a second
 * click shows all again.
 */
export function RefusedGroups({ groups }: { groups: readonly RejectedGroup[] }) {
  const [query] = useQuery();
  const isChosen = (group: RejectedGroup): boolean =>
    Object.entries(queryOf(group)).every(([name, value]) => query.get(name) === (value ?? null));
  const linkOf = (group: RejectedGroup): string => linkTo(["refused"], isChosen(group) ? {} : queryOf(group));
  const columns: Column<RejectedGroup>[] = [
    {
      title: "Reason",
      class: "whole",
      sortBy: ({ code, reason }) => `${titleOf(code)} ${reason}`,
      cell: (group) => (
        <a href={linkOf(group)} aria-current={isChosen(group)} class="row-link">
          <Why code={group.code} reason={group.reason} />
        </a>
      ),
    },
    {
      title: "Endpoint",
      class: "cut path",
      sortBy: ({ endpoint }) => endpoint ?? "",
      cell: ({ endpoint }) => endpoint ?? <span class="muted">not configured</span>,
    },
    {
      title: "Requests",
      class: "number strong",
      sortBy: ({ count: requests }) => requests,
      cell: ({ count: requests }) => count(requests),
    },
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
  ];
  return (
    <section class="card" aria-label="By endpoint and reason">
      <DataTable
        columns={columns}
        items={groups}
        keyOf={({ endpoint, code, reason }) => `${endpoint} ${code} ${reason}`}
        isChosen={isChosen}
      />
    </section>
  );
}
