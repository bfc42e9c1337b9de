import { type CountName, type DetailedName, NEWEST, percentile, TIME } from "./buckets.ts";

/** What a subject's counts are about. What found no place in its bucket is of a job or an endpoint that is undefined. */
export type Subject =
  | { kind: "job"; origin: string; job: string | undefined }
  | { kind: "endpoint"; path: string | undefined }
  | { kind: "origin"; origin: string };

/** How often each error code came, or each reason. */
export type Details = Readonly<Record<string, number>>;

/** What was counted of a subject, or of several together. */
export type Counts = Readonly<Record<CountName, number>> &
  Readonly<Record<DetailedName, Details>> & {
    /** When a credential was last refused, by the reason, unix ms. */
    newest: Details;
    /** From accepted to the runner's answer, by class (buckets.ts). */
    times: ReadonlyMap<number, number>;
  };

/** Undefined if it is of a kind that a later release counts. */
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

/** Adds up what is stored of one subject, each a JSON object. Names that only a later release counts are left out. */
export function toCounts(stored: readonly string[]): Counts {
  const plain: Record<string, number> = {};
  const detailed: Record<string, Record<string, number>> = {};
  const newest: Record<string, number> = {};
  const times = new Map<number, number>();
  for (const json of stored) {
    for (const [name, count] of Object.entries(JSON.parse(json) as Record<string, number>)) {
      const colon = name.indexOf(":");
      const [group, detail] = [name.slice(0, colon + 1), name.slice(colon + 1)];
      if (colon === -1) add(plain, name, count);
      else if (group === TIME) times.set(Number(detail), (times.get(Number(detail)) ?? 0) + count);
      else if (group === NEWEST) keepLatest(newest, detail, count);
      else {
        const details = detailed[group] ?? {};
        detailed[group] = details;
        add(details, detail, count);
      }
    }
  }
  return countsOf(
    (name) => plain[name] ?? 0,
    (name) => detailed[`${name}:`] ?? {},
    newest,
    times,
  );
}

/** Several as one. */
export function sumOf(all: readonly Counts[]): Counts {
  const newest: Record<string, number> = {};
  const times = new Map<number, number>();
  for (const counts of all) {
    for (const [k, count] of counts.times) times.set(k, (times.get(k) ?? 0) + count);
    for (const [reason, at] of Object.entries(counts.newest)) keepLatest(newest, reason, at);
  }
  return countsOf(
    (name) => all.reduce((sum, counts) => sum + counts[name], 0),
    (name) => sumOfDetails(all.map((counts) => counts[name])),
    newest,
    times,
  );
}

function countsOf(
  plain: (name: CountName) => number,
  detailed: (name: DetailedName) => Details,
  newest: Details,
  times: Counts["times"],
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
    times,
  };
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

/** What happened to the calls of one origin. */
export type OriginTotals = {
  accepted: number;
  refused: number;
  injected: number;
  failed: number;
  /** ms from accepted to the runner's answer; undefined if no call was injected. */
  p50Ms: number | undefined;
  p99Ms: number | undefined;
};

/** Counts of any subjects, of one origin. */
export function totalsOfOrigin(
  origin: string,
  counted: readonly { subject: Subject; counts: Counts }[],
): OriginTotals {
  const own = counted.filter(({ subject }) => originOf(subject) === origin);
  // An endpoint's calls are counted with their jobs too.
  const calls = sumOf(own.filter(({ subject }) => subject.kind === "job").map(({ counts }) => counts));
  const refusals = sumOf(own.filter(({ subject }) => subject.kind !== "job").map(({ counts }) => counts));
  return {
    accepted: calls.accepted,
    refused: totalOf(refusals.refused),
    injected: calls.injected,
    failed: totalOf(calls.failed),
    p50Ms: percentile(calls.times, 0.5),
    p99Ms: percentile(calls.times, 0.99),
  };
}
