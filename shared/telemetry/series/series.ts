import type { Clock } from "../../platform/time/clock.ts";
import {
  bucketStart,
  type CountName,
  type DetailedName,
  HELD,
  LAST_CLASS,
  NEWEST,
  othersOf,
  STEPS,
  SUBJECTS_MAX,
  TIME,
  timeClass,
} from "./buckets.ts";

type Counts = Record<string, number>;

/** What was earned in a token with a job: payments, and whole units of the token. */
type Earned = { payments: number; amount: bigint };

/** A token, and a job's key. */
type Source = { network: string; asset: string; job: string };

/** Made once, since a name is needed for each call. */
const TIME_NAMES = namesOf(TIME);
const HELD_NAMES = namesOf(HELD);

function namesOf(group: string): readonly string[] {
  return Array.from({ length: LAST_CLASS + 1 }, (_, k) => `${group}${k}`);
}

/** So many fine buckets wait in memory for Redis; what comes later is counted in the newest of them. */
const WAITING_MAX = 6;

/** What one process has counted and not yet told. It takes bounded memory, however long Redis is away. */
export class Series {
  readonly #clock: Clock;
  /** By the start of their bucket. */
  #waiting = new Map<number, Map<string, Counts>>();
  #earned = new Map<string, Map<string, Earned>>();
  /** The bucket of the last count, and when it ends. */
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

  /** Counts credentials that were refused for this reason, the newest of them now. */
  countUnauthorized(subject: string, reason: string, times: number): void {
    const counts = this.#countsOf(subject);
    counts[`unauthorized:${reason}`] = (counts[`unauthorized:${reason}`] ?? 0) + times;
    counts[`${NEWEST}${reason}`] = this.#clock();
  }

  /** Counts a call that its runner took `endToEndMs` after it was accepted. For `heldMs` of them its job was paused or it had failed. */
  countInjected(subject: string, endToEndMs: number, heldMs: number): void {
    const counts = this.#countsOf(subject);
    counts["injected"] = (counts["injected"] ?? 0) + 1;
    const name = TIME_NAMES[timeClass(endToEndMs - heldMs)] as string;
    counts[name] = (counts[name] ?? 0) + 1;
    if (heldMs === 0) return;
    const held = HELD_NAMES[timeClass(heldMs)] as string;
    counts[held] = (counts[held] ?? 0) + 1;
  }

  /** Notes that a process of this kind reports, so that its bucket exists even if nothing is counted. */
  noteReport(kind: string): void {
    this.#add(`process:${kind}`, "reports", 1);
  }

  /** Counts a payment in a token, at the day (UTC) on which it is told. */
  earn(source: Source, amount: bigint): void {
    const day = dayOf(this.#clock());
    const ofDay = this.#earned.get(day) ?? new Map<string, Earned>();
    this.#earned.set(day, ofDay);
    const wanted = rowOf(source);
    const key = ofDay.has(wanted) || ofDay.size < SUBJECTS_MAX ? wanted : rowOf({ ...source, job: "*" });
    const known = ofDay.get(key) ?? { payments: 0, amount: 0n };
    ofDay.set(key, { payments: known.payments + 1, amount: known.amount + amount });
  }

  /** All that was counted, which is then no longer here. */
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

/** What a process tells in one step. */
export type Counted = {
  buckets: ReadonlyMap<number, ReadonlyMap<string, Counts>>;
  earned: ReadonlyMap<string, ReadonlyMap<string, Earned>>;
};

function newCounts(bucket: Map<string, Counts>, wanted: string): Counts {
  const subject = bucket.size < SUBJECTS_MAX ? wanted : (othersOf(wanted) ?? wanted);
  const counts = bucket.get(subject) ?? {};
  bucket.set(subject, counts);
  return counts;
}

/** Names a row among the amounts of a day. */
export function rowOf({ network, asset, job }: Source): string {
  return `${network} ${asset} ${job}`;
}

/** As 2026-01-31, in UTC. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
