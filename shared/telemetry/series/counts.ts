import { type CountName, type DetailedName, HELD, NEWEST, percentile, TIME } from "./buckets.ts";

/**
 * A job, an endpoint or an origin whose events are counted. In a full bucket, further jobs or endpoints are counted
 * together, as one subject whose `job` or `path` is undefined.
 */
export type Subject =
  | { kind: "job"; origin: string; job: string | undefined }
  | { kind: "endpoint"; path: string | undefined }
  | { kind: "origin"; origin: string };

type Times = ReadonlyMap<number, number>;

/** Counts by error code or by reason. */
export type Details = Readonly<Record<string, number>>;

/** Counts of a subject, or of several subjects together. */
export type Counts = Readonly<Record<CountName, number>> &
  Readonly<Record<DetailedName, Details>> & {
    /** When a credential was last refused, by reason, unix ms. */
    newest: Details;
    /** Time of each injected call from accepted to the runner's answer, without its hold time, by class (buckets.ts). */
    times: Times;
    /**
     * Hold times of injected calls, by class: how long each waited because its job was paused or it had failed. Calls
     * without such a wait are not counted.
     */
    held: Times;
  };

/**
 * Parses the name of a subject in a bucket. Returns undefined for a subject without calls, such as `process:producer`,
 * and for a kind that only a later release counts.
 */
export function parseSubject(text: string): Subject | undefined {
  const [, kind, name = ""] = /^([a-z]+):(.*)$/s.exec(text) ?? [];
  const isOthers = name.endsWith("/*");
  switch (kind) {
    case "job": {
      const [origin = "", ...job] = name.split("/");
      return { kind, origin, job: isOthers ? undefined : job.join("/") };
    }
    case "endpoint":
      return { kind, path: isOthers ? undefined : name };
    case "origin":
      return { kind, origin: name };
    default:
      return undefined;
  }
}

export function originOf(subject: Subject): string {
  return subject.kind === "endpoint" ? "webhook" : subject.origin;
}

/**
 * Adds up the counts of one subject from several buckets, each stored as a JSON object. Ignores names that only a later
 * release counts.
 */
export function toCounts(stored: readonly string[]): Counts {
  const plain: Record<string, number> = {};
  const detailed: Record<string, Record<string, number>> = {};
  const newest: Record<string, number> = {};
  const [times, held] = [new Map<number, number>(), new Map<number, number>()];
  const classes = new Map([
    [TIME, times],
    [HELD, held],
  ]);
  for (const json of stored) {
    for (const [name, count] of Object.entries(JSON.parse(json) as Record<string, number>)) {
      const colon = name.indexOf(":");
      const [group, detail] = [name.slice(0, colon + 1), name.slice(colon + 1)];
      const ofClass = classes.get(group);
      if (colon === -1) add(plain, name, count);
      else if (ofClass !== undefined) addTimes(ofClass, [[Number(detail), count]]);
      else if (group === NEWEST) keepLatest(newest, detail, count);
      else {
        detailed[group] ??= {};
        add(detailed[group], detail, count);
      }
    }
  }
  return countsOf(
    (name) => plain[name] ?? 0,
    (name) => detailed[`${name}:`] ?? {},
    newest,
    { times, held },
  );
}

/** Adds up several counts. */
export function sumOf(all: readonly Counts[]): Counts {
  const newest: Record<string, number> = {};
  const [times, held] = [new Map<number, number>(), new Map<number, number>()];
  for (const counts of all) {
    addTimes(times, counts.times);
    addTimes(held, counts.held);
    for (const [reason, at] of Object.entries(counts.newest)) keepLatest(newest, reason, at);
  }
  return countsOf(
    (name) => all.reduce((sum, counts) => sum + counts[name], 0),
    (name) => sumOfDetails(all.map((counts) => counts[name])),
    newest,
    { times, held },
  );
}

function countsOf(
  plain: (name: CountName) => number,
  detailed: (name: DetailedName) => Details,
  newest: Details,
  times: Pick<Counts, "times" | "held">,
): Counts {
  return {
    accepted: plain("accepted"),
    replayed: plain("replayed"),
    handshakes: plain("handshakes"),
    dropped: plain("dropped"),
    challenged: plain("challenged"),
    injected: plain("injected"),
    refused: detailed("refused"),
    unauthorized: detailed("unauthorized"),
    delayed: detailed("delayed"),
    failed: detailed("failed"),
    newest,
    ...times,
  };
}

function addTimes(sums: Map<number, number>, more: Iterable<readonly [k: number, count: number]>): void {
  for (const [k, count] of more) sums.set(k, (sums.get(k) ?? 0) + count);
}

function add(sums: Record<string, number>, name: string, times: number): void {
  sums[name] = (sums[name] ?? 0) + times;
}

function keepLatest(latest: Record<string, number>, name: string, at: number): void {
  latest[name] = Math.max(latest[name] ?? 0, at);
}

function sumOfDetails(all: readonly Details[]): Details {
  const sums: Record<string, number> = {};
  for (const details of all) {
    for (const [detail, times] of Object.entries(details)) add(sums, detail, times);
  }
  return sums;
}

export function totalOf(details: Details): number {
  return Object.values(details).reduce((sum, times) => sum + times, 0);
}

/** Totals of the calls of one origin. */
export type OriginTotals = {
  accepted: number;
  refused: number;
  injected: number;
  failed: number;
  /**
   * Percentiles in ms of the time from accepted to the runner's answer, without hold times. Undefined if no call was
   * injected.
   */
  p50Ms: number | undefined;
  p99Ms: number | undefined;
  /** Percentiles in ms of the hold times (buckets.ts), over the calls that have one. Undefined if none has. */
  heldP50Ms: number | undefined;
  heldP99Ms: number | undefined;
};

/** Adds up the counts of all subjects of one origin. */
export function totalsOfOrigin(
  origin: string,
  counted: readonly { subject: Subject; counts: Counts }[],
): OriginTotals {
  const own = counted.filter(({ subject }) => originOf(subject) === origin);
  // A webhook is counted twice: for its endpoint and for its job. So the totals of calls add up the jobs only.
  const calls = sumOf(own.filter(({ subject }) => subject.kind === "job").map(({ counts }) => counts));
  const refusals = sumOf(own.filter(({ subject }) => subject.kind !== "job").map(({ counts }) => counts));
  return {
    accepted: calls.accepted,
    refused: totalOf(refusals.refused),
    injected: calls.injected,
    failed: totalOf(calls.failed),
    p50Ms: percentile(calls.times, 0.5),
    p99Ms: percentile(calls.times, 0.99),
    heldP50Ms: percentile(calls.held, 0.5),
    heldP99Ms: percentile(calls.held, 0.99),
  };
}
