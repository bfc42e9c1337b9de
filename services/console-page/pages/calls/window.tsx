import { shortly } from "../../ui/time.tsx";
import { useQuery } from "../../url-fragment.ts";

/** Parts of the URL that choose the calls of a time window: `from` is included, `to` is not. Unix ms. */
export function windowQuery(from: number, to: number): { from: string; to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** Times from `from` up to but not including `to`. */
type Window = { from: Date; to: Date };

/** Reads the time window from the URL. A click in a chart sets it. */
export function useWindow(): Window | undefined {
  const [query] = useQuery();
  const [from, to] = [new Date(query.get("from") ?? ""), new Date(query.get("to") ?? "")];
  return Number.isNaN(Number(from)) || Number.isNaN(Number(to)) ? undefined : { from, to };
}

/** Turns a window into the parameters of a search. `until` is included, so it is 1 ms before the window's end. */
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
