import { useQuery } from "../url-fragment.ts";
import { Segments } from "./segments.tsx";

const SPANS = [
  { value: "1h", name: "1 hour" },
  { value: "24h", name: "24 hours" },
] as const;
export type Span = (typeof SPANS)[number]["value"];

/** Returns the time span of the charts from the URL. */
export function useSpan(): Span {
  const [query] = useQuery();
  return query.get("span") === "24h" ? "24h" : "1h";
}

export function SpanChoice() {
  const [, change] = useQuery();
  return (
    <Segments
      label="Period"
      options={SPANS}
      value={useSpan()}
      onChange={(value) => change({ span: value })}
    />
  );
}
