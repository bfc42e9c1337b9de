import { shortly } from "../../ui/time.tsx";
import { useQuery } from "../../url-fragment.ts";

/** Part of an address that chooses the calls from a time on and before another (unix ms). */
export function between(from: number, to: number): { from: string; to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** Times from `from` on and before `to`. */
type Window = { from: Date; to: Date };

/** Reads a window of time from the address, as a click in a chart leaves it. */
export function useWindow(): Window | undefined {
  const [query] = useQuery();
  const [from, to] = [new Date(query.get("from") ?? ""), new Date(query.get("to") ?? "")];
  return Number.isNaN(Number(from)) || Number.isNaN(Number(to)) ? undefined : { from, to };
}

/** A search for the calls of a window. A search includes its end, so this one ends 1 ms earlier. */
export function toSearch({ from, to }: Window): { since: string; until: string } {
  return { since: from.toISOString(), until: new Date(Number(to) - 1).toISOString() };
}

/** Names the window, and leads back to all times. */
export function WindowChip({ window: { from, to } }: { window: Window }) {
  const [, change] = useQuery();
  return (
    <button type="button" onClick={() => change({ from: "", to: "" })}>
      {shortly(from)} to {shortly(to)}: show all times
    </button>
  );
}
