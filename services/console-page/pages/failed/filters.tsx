import { idsOfKey, jobKeyOf, whyNoJobKey } from "../../../../shared/call/job-ids.ts";
import type { FailedFilter, FailedGroup } from "../../api/failed.ts";
import { useJobTitle } from "../../api/names.ts";
import { FilterBar } from "../../ui/filter-bar.tsx";
import { SinceChoice, useSince } from "../../ui/since.tsx";
import { TextFilter } from "../../ui/text-filter.tsx";
import { useQuery } from "../../url-fragment.ts";

const NAMES = ["origin", "job", "endpoint", "code", "text", "since"] as const;

/**
 * Returns the filter in the URL, or a text that says why it is invalid. Never ignores an invalid part. The filter
 * without this part would select more calls than the user intended, or even all, and the user may discard them.
 */
export function useFilter(): FailedFilter | string {
  const [query] = useQuery();
  const since = useSince();
  const given = (name: (typeof NAMES)[number]): string | undefined => query.get(name) ?? undefined;
  const job = given("job");
  const empty = NAMES.find((name) => given(name) === "");
  if (empty !== undefined) return `The filter “${empty}” is empty.`;
  const whyNoJob = job && whyNoJobKey(job);
  if (whyNoJob !== undefined) return `Job ${job}: ${whyNoJob}.`;
  if (given("since") !== undefined && since === undefined)
    return `The filter “since” has the unknown value “${given("since")}”.`;
  return {
    origin: given("origin"),
    ...(job !== undefined && jobIds(job)),
    endpoint: given("endpoint"),
    code: given("code"),
    text: given("text"),
    since,
  };
}

function jobIds(job: string): FailedFilter {
  const { serviceId, jobIndex } = idsOfKey(job);
  return { service_id: serviceId, job_id: jobIndex };
}

export function isFiltered(filter: FailedFilter): boolean {
  return Object.values(filter).some((value) => value !== undefined);
}

/** Shows the filter as form fields. Each choice changes the URL. */
export function Filters({ filter, groups }: { filter: FailedFilter; groups: readonly FailedGroup[] }) {
  const [query, change] = useQuery();
  const titleOf = useJobTitle();
  const readFilter = (name: string): string => query.get(name) ?? "";
  const among = (name: "job" | "code" | "origin"): string[] => [
    ...new Set([
      ...groups.map((group) => (name === "job" ? jobKeyOf(group) : group[name])),
      ...(readFilter(name) === "" ? [] : [readFilter(name)]),
    ]),
  ];
  const choice = (name: "job" | "code" | "origin", title: string, all: string) => (
    <label class="filter">
      <span>{title}</span>
      <select
        value={readFilter(name)}
        onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
      >
        <option value="">{all}</option>
        {among(name).map((value) => (
          <option key={value} value={value}>
            {name === "job" ? titleOf(value) : value}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <FilterBar
      isActive={isFiltered(filter)}
      onClear={() => change({ job: "", code: "", origin: "", endpoint: "", text: "", since: "" })}
    >
      {choice("job", "Job", "all jobs")}
      {choice("code", "Reason", "all reasons")}
      {choice("origin", "Origin", "all origins")}
      <TextFilter
        title="Endpoint"
        placeholder="/hooks/…"
        value={readFilter("endpoint")}
        onChange={(endpoint) => change({ endpoint })}
      />
      <TextFilter
        title="Text"
        placeholder="id, reason, endpoint…"
        value={readFilter("text")}
        onChange={(text) => change({ text })}
      />
      <SinceChoice title="Failed" />
    </FilterBar>
  );
}
