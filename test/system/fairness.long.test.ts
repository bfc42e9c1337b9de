import { expect, onTestFinished, test } from "vitest";
import type { Part } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { useStack } from "../fixtures/stack.ts";
import { send } from "../support/http.ts";
import { untilDrained } from "./fleet/until-drained.ts";

const PRODUCERS = 2;
/** Default number of a producer's slots. */
const SLOTS = 100;
/** Slots that only a job without a slot may take. */
const RESERVE = Math.floor(SLOTS / 8);
const QUICK_JOB = 1;
const CALLS = 100;
const CALLS_OF_TROUBLED = 300;

/** Hanging calls time out only long after the test. */
const runner = useFakeRunner();
const stack = useStack(() => ({
  endpoints: [1, 2, 3, 4, 5, 6].map((job) => ({ path: `/hooks/${job}`, job_id: job, auth: "none" })),
  postern: { runner: { url: runner.url, timeout_ms: 600_000 }, producer: { lock_ms: 700_000 } },
  producers: PRODUCERS,
  drainSecs: 0,
}));

/** Queues new calls. Returns their ids. */
async function accept(job: number, calls: number): Promise<string[]> {
  const [gateway] = stack.gateways as [Part];
  const one = async () => {
    const answer = await send(gateway.address, { path: `/hooks/${job}`, body: "x" });
    expect(answer.status).toBe(202);
    return String(answer.json()["call_id"]);
  };
  return Promise.all(Array.from({ length: calls }, one));
}

const offersOf = (job: number) => runner.offers.filter(({ path }) => path === `/jobs/${job}`);
const idOf = ({ headers }: (typeof runner.offers)[number]) => String(headers["idempotency-key"]);

test.each([{ hanging: [2, 3, 4, 5, 6] }, { hanging: [2] }])(
  "while every call of $hanging.length jobs hangs, two producers inject all calls of another job, and in the end every call once",
  async ({ hanging }) => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    onTestFinished(release);
    runner.answer = async ({ path }) => {
      if (path !== `/jobs/${QUICK_JOB}`) await released;
      return { status: 200 };
    };
    await Promise.all(stack.producers.map((producer) => producer.kill("SIGTERM")));
    const waiting = (await Promise.all(hanging.map((job) => accept(job, CALLS_OF_TROUBLED)))).flat();
    await Promise.all(stack.producers.map((producer) => producer.restart()));
    const held = () => runner.offers.length - offersOf(QUICK_JOB).length;
    const jobs = hanging.length;
    const share = PRODUCERS * SLOTS * (jobs / (jobs + 1));
    await eventually("the hanging calls hold nearly all of their share", () => held() >= 0.9 * share);

    const quick = await accept(QUICK_JOB, CALLS);
    await eventually("all calls of the quick job are offered", () => offersOf(QUICK_JOB).length === CALLS);
    // A job that a producer found earlier holds more slots than the others, so the total may exceed their shares.
    const most = PRODUCERS * Math.min((jobs * SLOTS) / 2, SLOTS - RESERVE + jobs - 1);
    expect(held(), "slots of hanging calls").toBeLessThanOrEqual(most);

    release();
    await untilDrained(stack.redis, "webhook");
    expect(runner.offers.map(idOf).sort()).toEqual([...waiting, ...quick].sort());
  },
);

test("while a job answers 429, calls of another job run, and each call of the busy job is sent once before its Retry-After", async () => {
  runner.answer = ({ path }) =>
    path === `/jobs/${QUICK_JOB}` ? { status: 200 } : { status: 429, headers: { "Retry-After": "3600" } };
  const busy = await accept(2, CALLS_OF_TROUBLED);
  await eventually("the job pauses", () => offersOf(2).length >= 3);
  await accept(QUICK_JOB, CALLS);
  await eventually("all calls of the quick job are offered", () => offersOf(QUICK_JOB).length === CALLS);
  const offered = offersOf(2).map(idOf);
  expect(new Set(offered).size).toBe(offered.length);
  expect(offered.length, "the job pauses as a whole").toBeLessThan(busy.length);
});
