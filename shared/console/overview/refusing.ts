import { z } from "zod";
import { toIso } from "../../platform/time/iso.ts";
import { type Counts, type Details, sumOf, totalOf } from "../../telemetry/series/counts.ts";
import type { Bucket } from "../../telemetry/series/read.ts";
import { count, isoTime } from "../view.ts";

/** An endpoint that has refused many of its newest requests. */
export const RefusingView = z
  .object({
    /** Path of the endpoint. Null for the requests to all paths that no endpoint has, which are counted together. */
    endpoint: z.string().nullable(),
    /**
     * Number of requests to the endpoint in the last ten minutes, accepted or refused. If `endpoint` is null, the number
     * of all webhook requests.
     */
    requests: count,
    refused: count,
    /** The most frequent error code of the refused requests. */
    code: z.string(),
    /** The most frequent reason for which a credential was refused; null if `code` is another error. */
    reason: z.string().nullable(),
    /**
     * Start of the interval in which the newest refused request arrived. Requests are counted by interval, so their own
     * times are not known.
     */
    newest_from: isoTime,
  })
  .meta({ id: "Refusing" });
type RefusingView = z.infer<typeof RefusingView>;

const LATELY_MS = 600_000;
const REFUSED_MIN = 5;
const REFUSED_RATIO = 0.1;

type Span = { at: number; requests: number; refused: number; counts: Counts };

/**
 * Returns the endpoints that refused at least 5 requests in the last ten minutes, most refusals first. Only the intervals
 * with refusals are considered. There, at least 10 % of the requests must have been refused. Requests after a repair are
 * in other intervals, so a repaired endpoint stays listed for ten minutes.
 */
export function refusingIn(spans: readonly Bucket[], spanMs: number): RefusingView[] {
  const byEndpoint = new Map<string | null, Span[]>();
  for (const bucket of spans.slice(-Math.max(1, Math.round(LATELY_MS / spanMs))))
    for (const [endpoint, span] of spansOf(bucket))
      byEndpoint.set(endpoint, [...(byEndpoint.get(endpoint) ?? []), span]);
  return [...byEndpoint]
    .flatMap(([endpoint, own]) => toRefusing(endpoint, own) ?? [])
    .sort((a, b) => b.refused - a.refused || Number(a.endpoint === null) - Number(b.endpoint === null));
}

function toRefusing(endpoint: string | null, spans: readonly Span[]): RefusingView | undefined {
  const sum = (some: readonly Span[], name: "requests" | "refused") =>
    some.reduce((all, span) => all + span[name], 0);
  const withRefused = spans.filter(({ refused }) => refused > 0);
  const refused = sum(withRefused, "refused");
  const newest = withRefused.at(-1);
  if (newest === undefined || refused < REFUSED_MIN) return undefined;
  if (refused < REFUSED_RATIO * sum(withRefused, "requests")) return undefined;
  const counts = sumOf(withRefused.map((span) => span.counts));
  const code = mostOf(counts.refused) ?? "";
  return {
    endpoint,
    requests: sum(spans, "requests"),
    refused,
    code,
    reason: code === "webhook.credential_rejected" ? (mostOf(counts.unauthorized) ?? null) : null,
    newest_from: toIso(newest.at),
  };
}

/**
 * Groups the counts of an interval by endpoint. The entry `null` has the counts for all paths that no endpoint has, and
 * is always present.
 */
function spansOf({ at, counted }: Bucket): Map<string | null, Span> {
  const byEndpoint = new Map<string | null, Counts[]>([[null, []]]);
  for (const { subject, counts } of counted) {
    const endpoint = endpointOf(subject);
    if (endpoint !== undefined) byEndpoint.set(endpoint, [...(byEndpoint.get(endpoint) ?? []), counts]);
  }
  const spans = new Map<string | null, Span>();
  for (const [endpoint, own] of byEndpoint) {
    const counts = sumOf(own);
    const all = endpoint === null ? sumOf([...byEndpoint.values()].flat()) : counts;
    const requests = all.accepted + all.replayed + all.dropped + totalOf(all.refused);
    spans.set(endpoint, { at, requests, refused: totalOf(counts.refused), counts });
  }
  return spans;
}

/**
 * Returns the path of the endpoint to whose requests a count belongs. Returns null for webhook requests to a path that no
 * endpoint has, and undefined for a count of anything else.
 */
function endpointOf(subject: Bucket["counted"][number]["subject"]): string | null | undefined {
  if (subject.kind === "endpoint") return subject.path ?? null;
  return subject.kind === "origin" && subject.origin === "webhook" ? null : undefined;
}

function mostOf(details: Details): string | undefined {
  return Object.entries(details).sort(([, a], [, b]) => b - a)[0]?.[0];
}
