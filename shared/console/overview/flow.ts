import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { toIso } from "../../platform/time/iso.ts";
import { redisClock } from "../../redis/clock.ts";
import type { Partition } from "../../redis/partition.ts";
import { percentile, STEPS, type Step } from "../../telemetry/series/buckets.ts";
import {
  type Counts,
  type Details,
  originOf,
  sumOf,
  totalOf,
  totalsOfOrigin,
} from "../../telemetry/series/counts.ts";
import { type Bucket, createReadSeries } from "../../telemetry/series/read.ts";
import { count, isoTime } from "../view.ts";
import { RefusingView, refusingIn } from "./refusing.ts";

const ms = z.int().min(0).nullable();

/** Counts of the calls of one origin in a span of time. */
export const FlowTotal = z
  .object({
    accepted: count,
    refused: count,
    injected: count,
    failed: count,
    p50_ms: ms,
    p99_ms: ms,
    held_p50_ms: ms,
    held_p99_ms: ms,
  })
  .meta({ id: "FlowTotal" });
type FlowTotal = z.infer<typeof FlowTotal>;

/** Counts of the calls of one origin in each interval, oldest first. */
const FlowLine = z.object({
  origin: z.string(),
  total: FlowTotal,
  accepted: z.array(count),
  /** Requests that were refused before they became calls. They belong to no job. */
  refused: z.array(count),
  injected: z.array(count),
  failed: z.array(count),
  /**
   * Median and 99th percentile of the time from the acceptance of a call to the runner's answer. The time for which the
   * call was held back is left out. An estimate to two digits; null if no call was injected.
   */
  p50_ms: z.array(ms),
  p99_ms: z.array(ms),
  /**
   * Median and 99th percentile of the time for which a call was held back, because its job was paused, or it had failed.
   * Null if no call was held back.
   */
  held_p50_ms: z.array(ms),
  held_p99_ms: z.array(ms),
});

/** Counts of the calls of a job over all intervals. */
const FlowJob = z.object({
  origin: z.string(),
  /**
   * `<service id>/<job index>`. Null for all further jobs together: only a limited number of jobs is counted separately.
   */
  job: z.string().nullable(),
  accepted: count,
  replayed: count,
  injected: count,
  /** Number of failed attempts that will be retried. */
  delayed: count,
  failed: count,
  /** Failed attempts by error code, including those that ended the call. */
  failures: z.record(z.string(), count),
  p50_ms: ms,
  p99_ms: ms,
});

/**
 * Counts that all processes have reported. The counts of the last interval still grow: it has not ended, and processes
 * report only every ten seconds.
 */
export const FlowView = z
  .object({
    /** Start of the first interval. */
    from: isoTime,
    step_ms: count,
    /** True for each interval in which no process reported, so that its counts are unknown. */
    missing: z.array(z.boolean()),
    lines: z.array(FlowLine),
    jobs: z.array(FlowJob),
    /**
     * Endpoints that refused many of their requests in the last ten minutes, most refusals first. Empty if only one
     * job is read.
     */
    refusing: z.array(RefusingView),
  })
  .meta({ id: "Flow" });
export type FlowView = z.infer<typeof FlowView>;

/** Counts of the requests of a webhook endpoint. */
export const EndpointCounts = z
  .object({
    accepted: count,
    replayed: count,
    dropped: count,
    handshakes: count,
    /** Refused requests by error code. */
    refused: z.record(z.string(), count),
    /** Numbers of requests whose credential was refused, by reason. */
    unauthorized: z.record(z.string(), count),
    /**
     * For each reason, the time of the newest credential that was refused for it, by the gateways' clocks. Gateways
     * report it within ten seconds.
     */
    unauthorized_newest: z.record(z.string(), isoTime),
  })
  .meta({ id: "EndpointCounts" });
export type EndpointCounts = z.infer<typeof EndpointCounts>;

/** Requests of an endpoint in each interval, oldest first. */
export const EndpointFlow = z.object({
  /** Start of the first interval. */
  from: isoTime,
  step_ms: count,
  /** True for each interval in which no process reported. */
  missing: z.array(z.boolean()),
  accepted: z.array(count),
  replayed: z.array(count),
  refused: z.array(count),
});
export type EndpointFlow = z.infer<typeof EndpointFlow>;

export const FLOW_SPANS = ["1h", "24h"] as const;
export type FlowSpan = (typeof FLOW_SPANS)[number];

/** Number of the newest buckets of ten seconds that still grow, because processes report every ten seconds. */
const GROWING_BUCKETS = 2;
/** Number of buckets of ten seconds in a minute. */
const BUCKETS_IN_MINUTE = 60_000 / STEPS.fine.ms;

/**
 * For each span, the length and number of its intervals. `step` names the buckets from which they are built, and
 * `growing` is the number of the newest buckets that still grow. The shortest interval is a minute, because counts of
 * ten seconds would be mostly noise.
 */
const SPANS: Record<FlowSpan, { step: Step; ms: number; count: number; growing: number }> = {
  "1h": { step: "fine", ms: 60_000, count: 60, growing: GROWING_BUCKETS },
  "24h": { step: "coarse", ms: 300_000, count: 288, growing: 1 },
};

export type FlowApi = {
  /**
   * Reads the counts of a span. With `job`, reads only those of this job, which include no refused requests: a refused
   * request belongs to no job.
   */
  read(span: FlowSpan, job?: string): Promise<FlowView>;
  /** Reads the counts of a span once. Returns a function that makes the view of any job from them. */
  readAll(span: FlowSpan): Promise<(job?: string) => FlowView>;
  /** Reads the newest complete minute, which ended 10 to 20 s ago. Null if no process reported in it. */
  lastMinute(job?: string): Promise<(origin: string) => FlowTotal | null>;
  endpoint(path: string, span: FlowSpan): Promise<EndpointFlow>;
  /** Reads the counts of the last day, by the endpoint's path. */
  endpoints(): Promise<ReadonlyMap<string, EndpointCounts>>;
};

type Deps = { partition: Partition; clock?: Clock };

/** Reads the counts of calls by time. */
export function createFlowApi({ partition, clock = redisClock(partition.redis).now }: Deps): FlowApi {
  const series = createReadSeries(partition, clock);

  async function readSpans(span: FlowSpan) {
    const { step, ms, count, growing } = SPANS[span];
    const { buckets } = await series.buckets(step);
    const spans = joinBuckets(buckets, ms, growing).slice(-count);
    const times = {
      from: toIso(spans[0]?.at ?? clock()),
      step_ms: ms,
      missing: spans.map(({ isKnown }) => !isKnown),
    };
    return { spans, times };
  }

  async function readAll(span: FlowSpan): Promise<(job?: string) => FlowView> {
    const { spans, times } = await readSpans(span);
    return (job) => {
      const wanted = spans.map((each) => ({ ...each, counted: countsOfJob(each.counted, job) }));
      return {
        ...times,
        lines: originsIn(wanted).map((origin) => toLine(origin, wanted)),
        jobs: toJobs(wanted),
        refusing: job === undefined ? refusingIn(spans, SPANS[span].ms) : [],
      };
    };
  }

  return {
    readAll,

    read: async (span, job) => (await readAll(span))(job),

    async lastMinute(job) {
      const since = clock() - (BUCKETS_IN_MINUTE + GROWING_BUCKETS) * STEPS.fine.ms;
      const { buckets } = await series.buckets("fine", { since });
      const minute = buckets.slice(-BUCKETS_IN_MINUTE - GROWING_BUCKETS, -GROWING_BUCKETS);
      const counted = countsOfJob(
        minute.flatMap((bucket) => bucket.counted),
        job,
      );
      const isKnown = minute.some((bucket) => bucket.isKnown);
      return (origin) => (isKnown ? toTotal(origin, counted) : null);
    },

    async endpoint(path, span) {
      const { spans, times } = await readSpans(span);
      const counts = spans.map(({ counted }) => sumOf(countsOfEndpoint(counted, path)));
      return {
        ...times,
        accepted: counts.map(({ accepted }) => accepted),
        replayed: counts.map(({ replayed }) => replayed),
        refused: counts.map(({ refused }) => totalOf(refused)),
      };
    },

    async endpoints() {
      const { counted } = await series.total("coarse");
      const known = counted.flatMap(({ subject, counts }) =>
        subject.kind === "endpoint" && subject.path !== undefined
          ? [[subject.path, toEndpointCounts(counts)] as const]
          : [],
      );
      return new Map(known);
    },
  };
}

/**
 * Joins buckets into intervals that begin at multiples of `spanMs`. A bucket has the counts of ten seconds or five
 * minutes. The newest buckets, which may still grow, are all in the last interval. The counts of a subject are not added
 * up: an interval may have several.
 */
function joinBuckets(buckets: readonly Bucket[], spanMs: number, growing: number): Bucket[] {
  const startOf = (at: number): number => at - (at % spanMs);
  const last = startOf(buckets.at(-growing)?.at ?? 0);
  const spans = new Map<number, Bucket[]>();
  for (const bucket of buckets) {
    const start = Math.min(startOf(bucket.at), last);
    const known = spans.get(start);
    if (known === undefined) spans.set(start, [bucket]);
    else known.push(bucket);
  }
  return [...spans].map(([at, some]) => ({
    at,
    isKnown: some.some((bucket) => bucket.isKnown),
    counted: some.flatMap((bucket) => bucket.counted),
  }));
}

type Counted = Bucket["counted"];

function countsOfJob(counted: Counted, job: string | undefined): Counted {
  if (job === undefined) return counted;
  return counted.filter(({ subject }) => subject.kind === "job" && subject.job === job);
}

function countsOfEndpoint(counted: Counted, path: string): Counts[] {
  return counted.flatMap(({ subject, counts }) =>
    subject.kind === "endpoint" && subject.path === path ? [counts] : [],
  );
}

function originsIn(buckets: readonly Bucket[]): string[] {
  const found = buckets.flatMap(({ counted }) => counted.map(({ subject }) => originOf(subject)));
  return [...new Set<string>([...ORIGINS, ...found])];
}

function toTotal(origin: string, counted: Counted): FlowTotal {
  const { accepted, refused, injected, failed, ...times } = totalsOfOrigin(origin, counted);
  return {
    ...{ accepted, refused, injected, failed },
    p50_ms: times.p50Ms ?? null,
    p99_ms: times.p99Ms ?? null,
    held_p50_ms: times.heldP50Ms ?? null,
    held_p99_ms: times.heldP99Ms ?? null,
  };
}

function toLine(origin: string, buckets: readonly Bucket[]): z.infer<typeof FlowLine> {
  const totals = buckets.map(({ counted }) => toTotal(origin, counted));
  return {
    origin,
    total: toTotal(
      origin,
      buckets.flatMap(({ counted }) => counted),
    ),
    accepted: totals.map(({ accepted }) => accepted),
    refused: totals.map(({ refused }) => refused),
    injected: totals.map(({ injected }) => injected),
    failed: totals.map(({ failed }) => failed),
    p50_ms: totals.map(({ p50_ms }) => p50_ms),
    p99_ms: totals.map(({ p99_ms }) => p99_ms),
    held_p50_ms: totals.map(({ held_p50_ms }) => held_p50_ms),
    held_p99_ms: totals.map(({ held_p99_ms }) => held_p99_ms),
  };
}

function toJobs(buckets: readonly Bucket[]): z.infer<typeof FlowJob>[] {
  const all = new Map<string, { origin: string; job: string | null; counts: Counts[] }>();
  for (const { subject, counts } of buckets.flatMap(({ counted }) => counted)) {
    if (subject.kind !== "job") continue;
    const { origin, job = null } = subject;
    const key = `${origin}/${job}`;
    const known = all.get(key);
    if (known === undefined) all.set(key, { origin, job, counts: [counts] });
    else known.counts.push(counts);
  }
  return [...all.values()].map(({ origin, job, counts }) => {
    const { accepted, replayed, injected, delayed, failed, times } = sumOf(counts);
    return {
      origin,
      job,
      accepted,
      replayed,
      injected,
      delayed: totalOf(delayed),
      failed: totalOf(failed),
      failures: addDetails(delayed, failed),
      p50_ms: percentile(times, 0.5) ?? null,
      p99_ms: percentile(times, 0.99) ?? null,
    };
  });
}

function addDetails(one: Details, other: Details): Record<string, number> {
  const both = { ...one };
  for (const [code, times] of Object.entries(other)) both[code] = (both[code] ?? 0) + times;
  return both;
}

function toEndpointCounts({
  accepted,
  replayed,
  dropped,
  handshakes,
  refused,
  unauthorized,
  newest,
}: Counts): EndpointCounts {
  return {
    accepted,
    replayed,
    dropped,
    handshakes,
    refused: { ...refused },
    unauthorized: { ...unauthorized },
    unauthorized_newest: Object.fromEntries(
      Object.entries(newest).map(([reason, at]) => [reason, toIso(at)]),
    ),
  };
}
