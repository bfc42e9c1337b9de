import { type FailedFilter, type FailedGroup, jobOf } from "../../api/failed.ts";
import { useQuery } from "../../route.ts";
import { FilterBar } from "../../ui/filter-bar.tsx";
import { SinceChoice, useSince } from "../../ui/since.tsx";

/** What the address chooses. */
export function useFilter(): FailedFilter {
  const [query] = useQuery();
  const given = (name: string): string | undefined => query.get(name) ?? undefined;
  return {
    origin: given("origin"),
    ...jobIds(given("job")),
    endpoint: given("endpoint"),
    code: given("code"),
    since: useSince(),
  };
}

function jobIds(job: string | undefined): FailedFilter {
  const [, service, index] = /^(\d{1,15})\/(\d{1,15})$/.exec(job ?? "") ?? [];
  return service === undefined ? {} : { service_id: Number(service), job_id: Number(index) };
}

export function isFiltered(filter: FailedFilter): boolean {
  return Object.values(filter).some((value) => value !== undefined);
}

/** What is shown, as fields of a form; each choice is part of the address. */
export function Filters({ groups }: { groups: readonly FailedGroup[] }) {
  const [query, change] = useQuery();
  const filter = useFilter();
  const chosen = (name: string): string => query.get(name) ?? "";
  const among = (name: "job" | "code" | "origin"): string[] => [
    ...new Set([
      ...groups.map((group) => (name === "job" ? jobOf(group) : group[name])),
      ...(chosen(name) === "" ? [] : [chosen(name)]),
    ]),
  ];
  const choice = (name: "job" | "code" | "origin", title: string, all: string) => (
    <label class="filter">
      <span>{title}</span>
      <select value={chosen(name)} onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}>
        <option value="">{all}</option>
        {among(name).map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <FilterBar
      isActive={isFiltered(filter)}
      onClear={() => change({ job: "", code: "", origin: "", endpoint: "", since: "" })}
    >
      {choice("job", "Job", "every job")}
      {choice("code", "Reason", "every reason")}
      {choice("origin", "Came by", "every way")}
      <label class="filter">
        <span>Endpoint</span>
        <input
          type="search"
          placeholder="/hooks/…"
          value={chosen("endpoint")}
          onChange={({ currentTarget }) => change({ endpoint: currentTarget.value.trim() })}
        />
      </label>
      <SinceChoice title="Failed" />
    </FilterBar>
  );
}
