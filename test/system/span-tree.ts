import type { CollectedSpan } from "../fixtures/collector.ts";

/** Returns the spans as the tree shows them: kind, name and parent, sorted by kind and attempt. */
export function treeOf(spans: readonly CollectedSpan[]): string[] {
  const labelOf = ({ kind, name, attributes }: CollectedSpan): string =>
    [kind, name, attributes["postern.attempt"], attributes["error.type"]].filter(Boolean).join(" ");
  const labels = new Map(spans.map((span) => [span.spanId, labelOf(span)]));
  return spans
    .map((span) => `${labels.get(span.parent) ?? (span.parent || "root")} > ${labelOf(span)}`)
    .sort();
}
