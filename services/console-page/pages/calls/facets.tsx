import { useJobTitle } from "../../api/names.ts";
import { useAnswer } from "../../api/use-answer.ts";
import { count } from "../../ui/number.ts";
import { useMedia } from "../../ui/use-media.ts";
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

/** Returns the filters that the user has chosen by clicks on facets. They are in the query of the URL. */
export function useFacetFilters(): Partial<Record<Name, string>> {
  const [query] = useQuery();
  return Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? undefined]));
}

const EVERY_MS = 3000;

/** Media query for windows that are too narrow for the counts beside the list. */
const FOLDED = "(max-width: 1180px)";

type Props = {
  search: Query;
  /** The calls are counted again when this number changes. */
  turn: number;
  isLive: boolean;
};

/**
 * Shows how many of the found calls have each value of each facet, such as the state or the job. A click on a value
 * narrows the search to calls with it. A second click removes this filter.
 */
export function Facets({ search, turn, isLive }: Props) {
  const [query] = useQuery();
  const isFolded = useMedia(FOLDED);
  const { data, isCurrent } = useAnswer("api/v1/calls/facets", search, {
    turn,
    ...(isLive && { everyMs: EVERY_MS }),
  });
  if (data === undefined) return null;
  const shown = data.facets.filter(({ name, values }) => values.length > 0 || query.get(name) !== null);
  if (shown.length === 0) return null;
  const isActive = NAMES.some((name) => query.get(name) !== null);
  const facets = (
    <div class="facets card">
      {shown.map((facet) => (
        <Facet key={facet.name} {...facet} />
      ))}
      {!data.is_complete && <p class="muted small">Not every call was counted.</p>}
    </div>
  );
  return (
    <aside aria-label="Narrow the search" aria-busy={!isCurrent}>
      {isFolded ? (
        <details class="fold">
          <summary>{isActive ? "Narrow the search (active)" : "Narrow the search"}</summary>
          {facets}
        </details>
      ) : (
        facets
      )}
    </aside>
  );
}

type Values = readonly { value: string; count: number }[];

function Facet({ name, values, others }: { name: Name; values: Values; others: number }) {
  const [query, change] = useQuery();
  const titleOfJob = useJobTitle();
  const chosen = query.get(name);
  return (
    <fieldset>
      <legend>{TITLES[name]}</legend>
      {includeChosen(values, chosen).map(({ value, count: calls }) => (
        <button
          type="button"
          key={value}
          title={value}
          aria-pressed={chosen === value}
          onClick={() => change({ [name]: chosen === value ? "" : value })}
        >
          <span class="facet-value">{name === "job" ? titleOfJob(value) : wordFor(name, value)}</span>
          <span class="muted">{count(calls)}</span>
        </button>
      ))}
      {others > 0 && <p class="muted small">{count(others)} with other values</p>}
    </fieldset>
  );
}

/**
 * Adds the value by which the user filters if no found call has it. Otherwise it would not be shown, and the user could
 * not click on it to remove the filter.
 */
function includeChosen(values: Values, chosen: string | null): Values {
  return chosen === null || values.some(({ value }) => value === chosen)
    ? values
    : [...values, { value: chosen, count: 0 }];
}

function wordFor(name: Name, value: string): string {
  if (name === "state") return wordOf(value);
  return name === "code" ? titleOf(value) : value;
}
