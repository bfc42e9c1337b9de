import { useMemo } from "preact/hooks";
import { serverTime } from "../api/server-time.ts";
import { useQuery } from "../url-fragment.ts";

/** Time spans that end now. `name` is their name in the page's URL. */
const SPANS: readonly { name: string; title: string; ms: number }[] = [
  { name: "1h", title: "last hour", ms: 3_600_000 },
  { name: "24h", title: "last 24 hours", ms: 86_400_000 },
  { name: "7d", title: "last 7 days", ms: 604_800_000 },
];

/**
 * Returns the start of the time span that the URL names, by the server's clock. The start does not move with time, but
 * stays the same until the user chooses another span. Otherwise each render would have another start, and would clear
 * and reload the list.
 */
export function useSince(): string | undefined {
  const [query] = useQuery();
  const name = query.get("since");
  return useMemo(() => {
    const span = SPANS.find((each) => each.name === name);
    return span && new Date(serverTime() - span.ms).toISOString();
  }, [name]);
}

export function SinceChoice({ title }: { title: string }) {
  const [query, change] = useQuery();
  return (
    <label class="filter">
      <span>{title}</span>
      <select
        value={query.get("since") ?? ""}
        onChange={({ currentTarget }) => change({ since: currentTarget.value })}
      >
        <option value="">any time</option>
        {SPANS.map(({ name, title: words }) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
