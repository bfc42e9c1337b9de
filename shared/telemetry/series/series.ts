import type { Clock } from "../../platform/time/clock.ts";
import {
  bucketStart,
  type CountName,
  type DetailedName,
  groupOf,
  HELD,
  LAST_CLASS,
  NEWEST,
  STEPS,
  SUBJECTS_MAX,
  TIME,
  timeClass,
} from "./buckets.ts";

type Counts = Record<string, number>;

/** Earnings of a job in a token: number of payments, and their amount in the token's smallest unit. */
type Earned = { payments: number; amount: bigint };

/** A job, by its key, and a token in which it is paid. Their payments are added up in one row. */
type Source = { network: string; asset: string; job: string };

/**
 * Names of the counts of all classes of durations. They are built only once, because each injected call needs one or
 * two of them.
 */
const TIME_NAMES = namesOf(TIME);
const HELD_NAMES = namesOf(HELD);

function namesOf(group: string): readonly string[] {
  return Array.from({ length: LAST_CLASS + 1 }, (_, k) => `${group}${k}`);
}

/**
 * Maximum number of fine buckets that wait in memory while Redis is away. If there are as many, later counts go to the
 * newest of them.
 */
const WAITING_MAX = 6;

/** Counts of one process that it has not reported to Redis yet. They use limited memory, however long Redis is away. */
export class Series {
  readonly #clock: Clock;
  /** Counts by the start of their bucket. */
  #waiting = new Map<number, Map<string, Counts>>();
  #earned = new Map<string, Map<string, Earned>>();
  /** The bucket to which the last count was added, and the end of its span. */
  #now: Map<string, Counts> | undefined;
  #nowEnds = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  count(subject: string, name: CountName, times = 1): void {
    this.#add(subject, name, times);
  }

  countDetail(subject: string, name: DetailedName, detail: string, times = 1): void {
    this.#add(subject, `${name}:${detail}`, times);
  }

  /**
   * Counts `times` credentials that were refused for this reason, and stores the current time as the time of the newest
   * refusal.
   */
  countUnauthorized(subject: string, reason: string, times: number): void {
    const counts = this.#countsOf(subject);
    counts[`unauthorized:${reason}`] = (counts[`unauthorized:${reason}`] ?? 0) + times;
    counts[`${NEWEST}${reason}`] = this.#clock();
  }

  /**
   * Counts a call that its runner accepted `endToEndMs` after a gateway had accepted it. During `heldMs` of this time,
   * the call waited because its job was paused or because it had failed.
   */
  countInjected(subject: string, endToEndMs: number, heldMs: number): void {
    const counts = this.#countsOf(subject);
    counts["injected"] = (counts["injected"] ?? 0) + 1;
    const name = TIME_NAMES[timeClass(endToEndMs - heldMs)] as string;
    counts[name] = (counts[name] ?? 0) + 1;
    if (heldMs === 0) return;
    const held = HELD_NAMES[timeClass(heldMs)] as string;
    counts[held] = (counts[held] ?? 0) + 1;
  }

  /**
   * Counts a report of a process of this kind. So the bucket exists even if the process has counted nothing else.
   * Readers can then tell an interval without events from one without reports.
   */
  noteReport(kind: string): void {
    this.#add(`process:${kind}`, "reports", 1);
  }

  /** Counts a payment in a token, on the day (UTC) on which it is logged. */
  countPayment(source: Source, amount: bigint): void {
    const day = dayOf(this.#clock());
    const ofDay = this.#earned.get(day) ?? new Map<string, Earned>();
    this.#earned.set(day, ofDay);
    const wanted = rowOf(source);
    const key = ofDay.has(wanted) || ofDay.size < SUBJECTS_MAX ? wanted : rowOf({ ...source, job: "*" });
    const known = ofDay.get(key) ?? { payments: 0, amount: 0n };
    ofDay.set(key, { payments: known.payments + 1, amount: known.amount + amount });
  }

  /** Returns all counts and clears them. */
  take(): Counted {
    const taken = { buckets: this.#waiting, earned: this.#earned };
    this.#waiting = new Map();
    this.#earned = new Map();
    this.#now = undefined;
    return taken;
  }

  #add(subject: string, name: string, times: number): void {
    const counts = this.#countsOf(subject);
    counts[name] = (counts[name] ?? 0) + times;
  }

  #countsOf(subject: string): Counts {
    const bucket = this.#bucket();
    return bucket.get(subject) ?? newCounts(bucket, subject);
  }

  #bucket(): Map<string, Counts> {
    const at = this.#clock();
    if (this.#now !== undefined && at < this.#nowEnds) return this.#now;
    const start = bucketStart("fine", at);
    this.#now = this.#waiting.get(start) ?? this.#newBucket(start);
    this.#nowEnds = start + STEPS.fine.ms;
    return this.#now;
  }

  #newBucket(start: number): Map<string, Counts> {
    const newest = [...this.#waiting.values()].at(-1);
    if (newest !== undefined && this.#waiting.size >= WAITING_MAX) return newest;
    const bucket = new Map<string, Counts>();
    this.#waiting.set(start, bucket);
    return bucket;
  }
}

/** Counts that `take` returns: those that one process has collected since its last report. */
export type Counted = {
  buckets: ReadonlyMap<number, ReadonlyMap<string, Counts>>;
  earned: ReadonlyMap<string, ReadonlyMap<string, Earned>>;
};

function newCounts(bucket: Map<string, Counts>, wanted: string): Counts {
  const subject = bucket.size < SUBJECTS_MAX ? wanted : (groupOf(wanted) ?? wanted);
  const counts = bucket.get(subject) ?? {};
  bucket.set(subject, counts);
  return counts;
}

/** Returns the name of the row that stores a day's amounts of one job in one token. */
export function rowOf({ network, asset, job }: Source): string {
  return `${network} ${asset} ${job}`;
}

/** Formats a day as 2026-01-31, in UTC. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
