import fc from "fast-check";
import { expect, test } from "vitest";
import { type Source, type Turn, Turns } from "../../../../services/producer/consumer/turns.ts";
import { gateOf, jobOf } from "../../../../shared/queue/queue-name.ts";
import { LONG_RUN } from "../../../support/long-run.ts";

const SLOTS = 100;
const BYTES = 1_000_000;
const sources = new Map<string, Source>();

/** The object for a queue of a partition. It is always the same object, because `Turns` compares objects. */
function source(queue: string, partition = 0): Source {
  const name = `${partition} ${queue}`;
  const known = sources.get(name) ?? { queue, gate: gateOf(queue) };
  sources.set(name, known);
  return known;
}

const queue = (job: number, origin = "webhook", partition = 0) => source(`${origin}/7/${job}`, partition);
const neverClosed = () => false;

/** The queue whose turn it is. Notes that its fetch has found a call. */
function nextOf(turns: Turns): Source | undefined {
  const turn = turns.next();
  if (turn !== undefined) turns.noteFetched(turn.source);
  return turn?.source;
}

/** The slot that a small call of this queue holds. */
const turnOf = (of: Source): Turn => ({ source: of, bytes: 0, alone: false });

/** Takes all slots that may be taken. Returns the queues in the order in which they got slots. */
function takeAll(turns: Turns): Source[] {
  const taken: Source[] = [];
  for (let next = nextOf(turns); next !== undefined; next = nextOf(turns)) taken.push(next);
  return taken;
}

const countOf = (taken: readonly Source[], job: number) =>
  taken.filter((one) => jobOf(one.queue) === `7/${job}`).length;

test.each([1, 2, 3, 10, SLOTS])(
  "a job that is alone gets half of %i slots, over all its origins and partitions",
  (slots) => {
    const turns = new Turns({ slots, bytes: BYTES, isClosed: neverClosed });
    for (const partition of [0, 1, 2, 3]) turns.add(queue(1, "webhook", partition));
    turns.add(queue(1, "x402"));
    expect(takeAll(turns)).toHaveLength(Math.max(1, Math.floor(slots / 2)));
  },
);

test.each([1, 2, 3, 4, 5, 6])(
  "%i jobs that hang one after the other leave a slot for a further job",
  (jobs) => {
    const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
    for (let job = 1; job <= jobs; job++) {
      turns.add(queue(job));
      takeAll(turns);
    }
    turns.add(queue(99));
    expect(takeAll(turns)).toContain(queue(99));
  },
);

test.each([1, 2, 3, 4, 5, 6])(
  "%i jobs that begin to hang together get equal parts of the slots, and one part stays free",
  (jobs) => {
    const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
    for (let job = 1; job <= jobs; job++) turns.add(queue(job));
    const taken = takeAll(turns);
    const part = SLOTS / (jobs + 1);
    for (let job = 1; job <= jobs; job++) {
      expect(Math.abs(countOf(taken, job) - part)).toBeLessThanOrEqual(1);
    }
    expect(SLOTS - taken.length).toBeGreaterThanOrEqual(Math.floor(part) - 1);
  },
);

test("each job that holds no slot gets one slot of the reserve", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  for (let job = 1; job <= 88; job++) turns.add(queue(job));
  takeAll(turns);
  expect(turns.isWanted(queue(1))).toBe(false);
  for (let job = 101; job <= 112; job++) {
    turns.add(queue(job));
    expect(takeAll(turns)).toEqual([queue(job)]);
  }
  expect(turns.freeSlots).toBe(0);
});

test("receivers of callbacks whose deliveries hang share at most half of the slots, however many they are", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  const receivers = Array.from({ length: 60 }, (_, i) => source(`callback/7/${i}/receiver-${i}`));
  const first = source("callback/7/0/receiver-0");
  turns.add(first);
  const ofFirst = takeAll(turns).length;
  for (const receiver of receivers) turns.add(receiver);
  const ofOthers = takeAll(turns);
  expect(ofFirst).toBeLessThanOrEqual(SLOTS / 4);
  expect(new Set(ofOthers).size).toBeGreaterThan(20);
  expect(ofFirst + ofOthers.length).toBeLessThanOrEqual(SLOTS / 2);
  turns.add(queue(1));
  expect(takeAll(turns).length).toBeGreaterThan(SLOTS / 8);
});

test("the queues of a receiver for several jobs share the receiver's slots", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  for (let job = 1; job <= 9; job++) turns.add(source(`callback/7/${job}/hooks.example.com`));
  expect(takeAll(turns).length).toBeLessThanOrEqual(SLOTS / 4);
});

test("a fetch that finds a queue empty does not cancel a notice that came after it began", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  turns.add(queue(1));
  const { notices: noticesBefore } = turns;
  expect(nextOf(turns)).toBe(queue(1));
  turns.add(queue(1));
  turns.noteEmpty(queue(1), noticesBefore);
  expect(nextOf(turns)).toBe(queue(1));
  turns.noteEmpty(queue(1), turns.notices);
  expect(nextOf(turns)).toBeUndefined();
});

test("a queue is left to another producer while its job's last allowed fetch is in flight", () => {
  const turns = new Turns({ slots: 2, bytes: BYTES, isClosed: neverClosed });
  turns.add(queue(1));
  expect(turns.next()?.source).toBe(queue(1));
  expect(turns.isWanted(queue(1))).toBe(false);
});

test("a job whose runner is away gets no slot", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: ({ gate }) => gate === "7/1" });
  turns.add(queue(1));
  turns.add(queue(2));
  expect(new Set(takeAll(turns))).toEqual(new Set([queue(2)]));
  expect(turns.isWanted(queue(1))).toBe(false);
});

/**
 * Simulates a consumer whose calls all end at once, while every queue has a further call. The first queue has taken all
 * the slots that it may have when the other queues are added. Returns how many calls of each queue have ended.
 */
function run(slots: number, queues: readonly Source[], calls: number): Map<Source, number> {
  const turns = new Turns({ slots, bytes: BYTES, isClosed: neverClosed });
  const ended = new Map(queues.map((one) => [one, 0]));
  turns.add(queues[0] as Source);
  let inFlight = takeAll(turns);
  for (const one of queues) turns.add(one);
  for (let i = 0; i < calls; i++) {
    inFlight.push(...takeAll(turns));
    const [first, ...rest] = inFlight as [Source, ...Source[]];
    ended.set(first, (ended.get(first) ?? 0) + 1);
    inFlight = rest;
    if (turns.mayKeepSlot(turnOf(first))) inFlight.push(first);
    else turns.release(turnOf(first));
  }
  return ended;
}

test.each([
  ["more queues than slots", 4, Array.from({ length: 40 }, (_, i) => queue(i))],
  ["one slot", 1, [queue(1), queue(2), queue(3)]],
  ["two origins of a job", 16, [queue(1), queue(1, "x402")]],
  ["two origins of a job, beside others", 16, [queue(1), queue(1, "x402"), queue(2), queue(3)]],
] as const)("every queue with calls gets its turns: %s", (_, slots, queues) => {
  const calls = LONG_RUN ? 4000 : 1000;
  const ended = [...run(slots, queues, calls).values()];
  const share = calls / queues.length;
  expect(Math.min(...ended)).toBeGreaterThan(share / 4);
});

type Step = { kind: "add" | "remove" | "next" | "again" | "release"; at: number; one: Source };

/**
 * Does this step, if a consumer could do it now. Returns the queues of the calls that are then in flight, with one
 * entry per call.
 */
function apply(turns: Turns, inFlight: readonly Source[], step: Step): Source[] {
  const { kind, at, one } = step;
  const ending = inFlight[at % Math.max(1, inFlight.length)];
  if (kind === "add") turns.add(one);
  if (kind === "remove") turns.noteEmpty(one, turns.notices);
  if (kind === "next") return [...inFlight, nextOf(turns)].filter((taken) => taken !== undefined);
  if (kind === "add" || kind === "remove" || ending === undefined) return [...inFlight];
  if (kind === "again" && turns.mayKeepSlot(turnOf(ending))) return [...inFlight];
  turns.release(turnOf(ending));
  return inFlight.toSpliced(inFlight.indexOf(ending), 1);
}

test("after any sequence of steps, held and free slots add up to all slots, and no job holds more than half", () => {
  const step = fc.record<Step>({
    kind: fc.constantFrom("add", "remove", "next", "again", "release"),
    at: fc.nat(50),
    one: fc.constantFrom(
      ...[1, 2, 3, 4, 5, 6].flatMap((job) => [queue(job), queue(job, "x402"), queue(job, "webhook", 1)]),
    ),
  });
  const sequences = fc.property(
    fc.integer({ min: 1, max: 40 }),
    fc.array(step, { maxLength: 200 }),
    (slots, steps) => {
      const turns = new Turns({ slots, bytes: BYTES, isClosed: neverClosed });
      let inFlight: Source[] = [];
      for (const each of steps) {
        inFlight = apply(turns, inFlight, each);
        expect(turns.freeSlots).toBe(slots - inFlight.length);
        const most = Math.max(...[1, 2, 3, 4, 5, 6].map((job) => countOf(inFlight, job)));
        expect(most).toBeLessThanOrEqual(Math.max(1, Math.ceil(slots / 2)));
      }
      for (const one of inFlight) turns.release(turnOf(one));
      for (let job = 1001; job <= 1000 + slots; job++) turns.add(queue(job));
      expect(takeAll(turns)).toHaveLength(slots);
      expect(turns.freeSlots).toBe(0);
    },
  );
  fc.assert(sequences, { numRuns: LONG_RUN ? 300 : 60 });
});

/** The number of fetches that may be in flight at the same time. */
function fetchesAtOnce(turns: Turns): number {
  let count = 0;
  while (turns.next() !== undefined) count += 1;
  return count;
}

/** The turns of a single queue from which one call was fetched, while `waiting` further calls wait. */
function turnsOf(of: Source, waiting: number): Turns {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  turns.add(of);
  turns.next();
  turns.noteFetched(of, waiting);
  return turns;
}

test("a queue gets one fetch, and after it as many as it is known to have waiting calls", () => {
  const turns = new Turns({ slots: SLOTS, bytes: BYTES, isClosed: neverClosed });
  turns.add(queue(1));
  expect(fetchesAtOnce(turns)).toBe(1);
  turns.noteFetched(queue(1), 7);
  expect(fetchesAtOnce(turns)).toBe(7);
  turns.noteFetched(queue(1), 6);
  expect(fetchesAtOnce(turns)).toBe(0);
});

test("after a fetch that failed or found nothing, a queue is fetched from only once at a time", () => {
  const turns = turnsOf(queue(1), 7);
  turns.next();
  turns.noteFetched(queue(1));
  expect(fetchesAtOnce(turns)).toBe(1);
});

test("a large call gets one fetch, however many calls wait behind it", () => {
  const turns = turnsOf(queue(1), 7);
  turns.noteLarge(queue(1), BYTES / 10);
  expect(turns.next()).toMatchObject({ source: queue(1), bytes: BYTES / 10 });
  expect(fetchesAtOnce(turns)).toBe(0);
});
