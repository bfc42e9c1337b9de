import { shortly } from "../../ui/time.tsx";
import { useQuery } from "../../url-fragment.ts";

/** Part of an address that chooses the calls from a time on and before another (unix ms). */
export function between(from: number, to: number): { from: string; to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

export type Window = { since: string; until: string };

/** Reads a window of time from the address, as a click in a chart leaves it. */
export function useWindow(): Window | undefined {
  const [query] = useQuery();
  const [from, to] = [Date.parse(query.get("from") ?? ""), Date.parse(query.get("to") ?? "")];
  if (Number.isNaN(from) || Number.isNaN(to)) return undefined;
  // The search includes both ends.
  return { since: new Date(from).toISOString(), until: new Date(to - 1).toISOString() };
}

/** Names the window, and leads back to all times. */
export function WindowChip({ window: { since, until } }: { window: Window }) {
  const [, change] = useQuery();
  const end = new Date(Date.parse(until) + 1);
  return (
    <button type="button" onClick={() => change({ from: "", to: "" })}>
      {shortly(new Date(since))} to {shortly(end)}: show all times
    </button>
  );
}
