import { shortly } from "../../ui/time.tsx";
import { useQuery } from "../../url-fragment.ts";

/**
 * Returns the query parameters that limit the Calls page to a time window, from `from` up to but not including `to`
 * (unix ms).
 */
export function windowQuery(from: number, to: number): { from: string; to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** A time window, from `from` up to but not including `to`. */
type Window = { from: Date; to: Date };

/** Reads the time window from the query of the URL. A click on a point of a chart opens a URL with the window of that point. */
export function useWindow(): Window | undefined {
  const [query] = useQuery();
  const [from, to] = [new Date(query.get("from") ?? ""), new Date(query.get("to") ?? "")];
  return Number.isNaN(Number(from)) || Number.isNaN(Number(to)) ? undefined : { from, to };
}

/**
 * Converts a window into the parameters of a search. Unlike `to`, `until` belongs to the searched time, so it is 1 ms
 * before the window's end.
 */
export function toSearch({ from, to }: Window): { since: string; until: string } {
  return { since: from.toISOString(), until: new Date(Number(to) - 1).toISOString() };
}

/** Shows the time window, with a button that removes it. */
export function WindowChip({ window: { from, to } }: { window: Window }) {
  const [, change] = useQuery();
  return (
    <button type="button" onClick={() => change({ from: "", to: "" })}>
      {shortly(from)} to {shortly(to)}: show all times
    </button>
  );
}
