/*
 * Plan of a soak, whose calls are numbered from 0. The number alone decides a call's job and size, whether it is repeated and
 * whether its first run fails. So the sender and the handlers agree without an exchange. The periods (`…_EVERY`) are primes,
 * so that every kind of call occurs with every job.
 */

const JOBS = 10;
/** Number of the long job. For it, the runner stores a call, answers the producer, and runs the call afterwards. */
const LONG_JOB = 10;
const SMALL_BYTES = 1000;
/** Body sizes above 256 KiB. A gateway sends such calls to Redis over a separate connection. */
const LARGE_BYTES = [300_000, 800_000, 2_000_000] as const;
const LARGE_EVERY = 997;
const FAILING_EVERY = 101;
const REPEATED_EVERY = 103;
/**
 * A repeated call is sent again after this number of further calls. After 8, the first delivery is probably still in flight.
 * After 2000, it has ended long before.
 */
const REPEATED_AFTER = [8, 2000] as const;

/** Maximum size of a handler's answer. */
export const ANSWER_BYTES = 1000;

export const soakJobs: readonly { id: number; long: boolean }[] = Array.from({ length: JOBS }, (_, i) => ({
  id: i + 1,
  long: i + 1 === LONG_JOB,
}));

export function jobOf(call: number): number {
  return (call % JOBS) + 1;
}

export function isLarge(call: number): boolean {
  return call % LARGE_EVERY === 0;
}

/** Returns whether the handler must fail the first run of this call, so that the call runs again. */
export function failsFirst(call: number): boolean {
  return call % FAILING_EVERY === 50;
}

/** Yields the number of the call of each delivery, in order. Each call occurs once, and about one in a hundred again. */
export function* deliveries(calls: number): Generator<number> {
  for (let call = 0; call < calls; call++) {
    yield call;
    for (const after of REPEATED_AFTER) if (isRepeatedAfter(call - after, after)) yield call - after;
  }
}

function isRepeatedAfter(call: number, after: number): boolean {
  const which = Math.floor(call / REPEATED_EVERY) % REPEATED_AFTER.length;
  return call >= 0 && call % REPEATED_EVERY === 51 && REPEATED_AFTER[which] === after;
}

const filler = Buffer.alloc(Math.max(...LARGE_BYTES), "x");

/** Builds the body of a call: JSON that begins with the call's number. */
export function bodyOf(call: number): Buffer {
  const bytes = isLarge(call) ? LARGE_BYTES[(call / LARGE_EVERY) % LARGE_BYTES.length] : SMALL_BYTES;
  const [head, tail] = [Buffer.from(`{"n":${call},"text":"`), Buffer.from('"}')];
  const text = filler.subarray(0, (bytes ?? SMALL_BYTES) - head.length - tail.length);
  return Buffer.concat([head, text, tail]);
}

export function callIn(body: Buffer): number {
  return Number(/^\{"n":(\d+),/.exec(body.toString("latin1", 0, 32))?.[1]);
}
