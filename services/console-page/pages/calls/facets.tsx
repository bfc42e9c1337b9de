import { useAnswer } from "../../api/use-answer.ts";
import { count } from "../../ui/number.ts";
import { titleOf } from "../../ui/why.tsx";
import { type Query, useQuery } from "../../url-fragment.ts";
import { wordOf } from "./state.tsx";

const TITLES = {
  state: "State",
  endpoint: "Endpoint",
  job: "Job",
  event: "Event type",
  code: "Error",
} as const;
type Name = keyof typeof TITLES;

const NAMES = Object.keys(TITLES) as Name[];

/** The filters that a facet sets, as they are in the address. */
export function useFacetFilters(): Partial<Record<Name, string>> {
  const [query] = useQuery();
  return Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? undefined]));
}

/** Counts of the calls that a search finds. A click on a value narrows the search to it, and a second one widens it again. */
export function Facets({ search, turn }: { search: Query; turn: number }) {
  const [query, change] = useQuery();
  const { data, isCurrent } = useAnswer("api/v1/calls/facets", search, { turn });
  if (data === undefined) return null;
  const shown = data.facets.filter(({ name, values }) => values.length > 0 || query.get(name) !== null);
  if (shown.length === 0) return null;
  return (
    <aside class="facets card" aria-label="Narrow the search" aria-busy={!isCurrent}>
      {shown.map(({ name, values, others }) => (
        <fieldset key={name}>
          <legend>{TITLES[name]}</legend>
          {withChosen(values, query.get(name)).map(({ value, count: calls }) => (
            <button
              type="button"
              key={value}
              title={value}
              aria-pressed={query.get(name) === value}
              onClick={() => change({ [name]: query.get(name) === value ? "" : value })}
            >
              <span class="cut">{wordFor(name, value)}</span>
              <span class="muted">{count(calls)}</span>
            </button>
          ))}
          {others > 0 && <p class="muted small">{count(others)} with other values</p>}
        </fieldset>
      ))}
      {!data.is_complete && <p class="muted small">Not every call was counted.</p>}
    </aside>
  );
}

type Values = readonly { value: string; count: number }[];

/** Also a chosen value that no call has, so that it can be taken back. */
function withChosen(values: Values, chosen: string | null): Values {
  return chosen === null || values.some(({ value }) => value === chosen)
    ? values
    : [...values, { value: chosen, count: 0 }];
}

function wordFor(name: Name, value: string): string {
  if (name === "state") return wordOf(value);
  return name === "code" ? titleOf(value) : value;
}
