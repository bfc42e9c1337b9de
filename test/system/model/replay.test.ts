import { beforeEach, expect, test } from "vitest";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { isGone, openBackends } from "../../../shared/queue/backend.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { LONG_RUN } from "../../support/long-run.ts";
import { makePayment, UNBOUNDED } from "../../support/made-payment.ts";
import { WORK } from "../../support/results.ts";
import type { Action } from "./action.ts";
import { modelOf } from "./model.ts";
import { PROTOCOL } from "./protocol.ts";
import { type Body, initialStates, type State } from "./state.ts";

/*
 * Random runs of the model. Each of the model's changes to Redis is also made by the program's own scripts. After each
 * step Redis must match the model, so neither can change without the other.
 */
const RUNS = LONG_RUN ? 300 : 60;
/** Seeds from here on need only a few runs to take every kind of step. */
const FIRST_SEED = 2458;
const STEPS_MAX = 80;
const QUEUE = "x402/1/7";
const TOKEN = "a token";

const redis = useRedis();
const journal = () => new PaymentJournal(redis.partition);
const backend = () => openBackends(redis.partition, WORK)(QUEUE);

const made = makePayment({ network: "eip155:84532", asset: `0x${"5".repeat(40)}` });
const { id } = made.call;
const settlement = {
  transaction: `0x${"ab".repeat(32)}`,
  network: made.terms.network,
  payer: made.terms.payer,
  by: "chain",
} as const;
const hashOf = (body: Body) => sha256Hex(Buffer.from(body));

beforeEach(async () => {
  await redis.client.flushdb();
});

async function found(): Promise<Payment> {
  const payment = await journal().find(id);
  if (payment === undefined) throw new Error("there is no such payment");
  return payment;
}

async function takeBack(): Promise<void> {
  const { client } = redis;
  await client.del(keys.inQueue(QUEUE, `${id}:lock`));
  for (let look = 0; look < 2; look++) {
    await client.del(keys.inQueue(QUEUE, "stalled-check"));
    await backend().moveStalledJobsToWait();
  }
}

const unlessGone = (error: unknown): void => {
  if (!isGone(error)) throw error;
};

/** Changes Redis as the step does in this state of the model. */
type Deed = (s: State, body: Body) => Promise<unknown>;

/** Keys are the ends of step names. All other steps do not change Redis. */
const DEEDS: Readonly<Record<string, Deed>> = {
  async "claims the payment with its body"(s, body) {
    const call = { ...made.call, sha256: hashOf(body), body: Buffer.from(body).toString("base64") };
    const by = `request ${body} of ${Math.random()}`;
    const claimed = await journal().claim({ ...made, call }, { ...UNBOUNDED, by, dueInMs: 0 });
    const known = s.recordBody === body ? "known" : "conflict";
    expect(claimed.kind).toBe(s.record === "none" ? "new" : known);
  },
  async "records the settlement"(s) {
    const known = { settlement, proven: true };
    const before = await journal().enqueueSettled(await found(), known, { dueInMs: 0 });
    expect(before).toBe(s.record);
  },
  "marks it VOID": async () =>
    journal().markVoid(await found(), { reason: "it expired" }, { now: Date.now() }),
  "adds the missing job while the record is QUEUED": async () => journal().enqueueAgain(await found()),
  async "takes the job and reads its record"(s) {
    const fetched = await backend().fetch(TOKEN, { bytes: undefined, alone: true });
    expect(fetched).toMatchObject({ kind: "call", id, record: s.record });
  },
  "removes the job of a record that is INJECTED": () =>
    backend().ended(id, TOKEN, undefined).catch(unlessGone),
  "marks the record INJECTED and removes the job": () =>
    backend()
      .injected(id, TOKEN, { fetchNext: undefined, windowMs: 60_000, retried: true })
      .catch(unlessGone),
  "the job of a dead worker waits again": takeBack,
  "the job of a worker that stands still waits again": takeBack,
  "a waiting job is lost": () => backend().remove(id, false),
};

/**
 * Steps that end a run early or undo it. They are rare, because otherwise most runs would end before their payment is
 * settled.
 */
const RARE = /^(kill|queue)|the payer (cancels|drains)|a finalized block|refuses/;
const RARELY = 15;

/** Chooses the next of the possible steps. */
function choose(possible: readonly Action[], roll: (sides: number) => number): Action | undefined {
  const common = possible.filter(({ name }) => !RARE.test(name));
  const among = common.length > 0 && roll(RARELY) > 0 ? common : possible;
  return among[roll(among.length)];
}

const deedOf = ({ name }: Action): string | undefined =>
  Object.keys(DEEDS).find((ending) => name.endsWith(`: ${ending}`));

/** Returns the record and the jobs in the model's form. */
async function inRedis(): Promise<Pick<State, "record"> & { body: string | null; jobs: string[] }> {
  const [record, body] = await redis.client.hmget(keys.record(id), "st", "bh");
  const [waiting, active] = await Promise.all(
    ["wait", "active"].map((list) => redis.client.lrange(keys.inQueue(QUEUE, list), 0, -1)),
  );
  const jobs = [...(waiting ?? []).map(() => "waiting"), ...(active ?? []).map(() => "active")];
  return { record: (record ?? "none") as State["record"], body: body ?? null, jobs };
}

const inModel = ({ record, recordBody, jobs }: State) => ({
  record,
  body: record === "none" ? null : hashOf(recordBody),
  jobs: jobs.map(({ at }) => at),
});

/** Returns random numbers that are the same for the same seed (mulberry32). */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % sides;
  };
}

test("the program's scripts change Redis like the model, in random runs with every kind of step", async () => {
  const actions = modelOf(PROTOCOL, { sends: 4, crashes: 3, reconcilers: 2, losesJobs: true });
  const met = new Set<string>();
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    await redis.client.flushdb();
    const roll = dice(seed);
    const path: string[] = [];
    let s = initialStates[0] as State;
    while (path.length < STEPS_MAX) {
      const possible = actions.filter(({ when }) => when(s));
      const action = choose(possible, roll);
      if (action === undefined) break;
      path.push(action.name);
      const deed = deedOf(action);
      const gateway = s.gateways[Number(/^gateway (\d)/.exec(action.name)?.[1]) - 1];
      if (deed !== undefined) {
        met.add(`${deed}, found ${s.record}`);
        await DEEDS[deed]?.(s, gateway?.body ?? "A");
      }
      s = action.does(s);
      expect(await inRedis(), `seed ${seed}\n${path.join("\n")}`).toEqual(inModel(s));
    }
  }
  expect([...met].sort()).toEqual([
    "a waiting job is lost, found QUEUED",
    "adds the missing job while the record is QUEUED, found INJECTED",
    "adds the missing job while the record is QUEUED, found QUEUED",
    "claims the payment with its body, found QUEUED",
    "claims the payment with its body, found SETTLING",
    "claims the payment with its body, found none",
    "marks it VOID, found SETTLING",
    "marks the record INJECTED and removes the job, found QUEUED",
    "records the settlement, found INJECTED",
    "records the settlement, found QUEUED",
    "records the settlement, found SETTLING",
    "removes the job of a record that is INJECTED, found INJECTED",
    "takes the job and reads its record, found INJECTED",
    "takes the job and reads its record, found QUEUED",
    "the job of a dead worker waits again, found QUEUED",
    "the job of a worker that stands still waits again, found QUEUED",
  ]);
});
