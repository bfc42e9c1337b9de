import { afterAll, beforeAll, expect, test } from "vitest";
import { createResults, type Results } from "../../../shared/call/results/store.ts";
import { createReadLife } from "../../../shared/call-search/life.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS, type Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { keys, runnerKeys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { send } from "../../support/http.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../support/long-run.ts";
import { openQueues, type TestQueues } from "../../support/queues.ts";

const CALLS = 5;
const ID_HEADER = "X-Delivery-Id";

const endpoint = { auth: "none", idempotency_header: ID_HEADER, keep_result: true };
/** Gateway 0 is killed; gateway 1 accepts the repeats. */
const stack = useStack(() => ({
  endpoints: [
    { ...endpoint, path: "/effect", job_id: 1 },
    { ...endpoint, path: "/long", job_id: 2 },
    { ...endpoint, path: "/unknown", job_id: 404 },
    { ...endpoint, path: "/waiting", job_id: 1, respond: "result", wait_secs: 30 },
  ],
  gateways: 2,
  deliveries: true,
  postern: { producer: { lock_ms: 1000 }, runner: { timeout_ms: 800, lease_ms: 1000 } },
}));
let queues: TestQueues;
let results: Results;
beforeAll(() => {
  queues = openQueues(stack.redis.client);
  results = createResults(stack.redis.partition);
});
afterAll(() => queues?.close());

/** Sends one delivery until it gets its 202, as a sender does that knows only the answers. */
function deliver(path: string, id: string): Promise<string> {
  let sendings = 0;
  return eventually(`${id} is accepted`, async () => {
    const gateway = stack.gateways[sendings++ % stack.gateways.length] as Part;
    const answer = await send(gateway.address, { path, headers: { [ID_HEADER]: id }, body: `body of ${id}` });
    return answer.status === 202 ? String(answer.json()["call_id"]) : undefined;
  });
}

const deliverAll = (path: string, name: string, count = CALLS): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => deliver(path, `${name}-${i}`)));

async function diesAtItsFailpoint({ process }: Part): Promise<void> {
  expect((await process.exit).signal, `${process.name} dies at its failpoint`).toBe("SIGKILL");
}

const untilNothingWaits = (): Promise<unknown> =>
  eventually("nothing waits", async () => (await queues.countIn("wait", "active", "delayed")) === 0);

/** An empty queue, which a producer removes from the registry at its first look. */
const EMPTY_QUEUE = "webhook/7/1000";

/** Returns the number of a call's attempts, and its steps from the first one on. */
async function attemptsOf(id: string): Promise<[attempts: number | undefined, ...steps: string[]]> {
  const { attempts, steps = [] } = (await createReadLife(stack.redis.partition)(id)) ?? {};
  const told = steps.map((step) => ("n" in step ? `${step.kind} ${step.n}` : step.kind));
  return [attempts, ...told.filter((step) => /^attempt|^failed|^injected/.test(step))];
}

/** Returns the kept answers of the job. */
async function resultsOf(ids: readonly string[]): Promise<string[]> {
  const read = await Promise.all(ids.map((id) => results.read(id)));
  return read.map((result) => (result.kind === "answer" ? result.body.toString() : result.kind));
}

/** Returns the expected answers, one run per call. */
const answers = (ids: readonly string[]) => ids.map((id) => JSON.stringify({ done: id }));

const once = (ids: readonly string[]): number[] => ids.map(() => 1);

const pointsOf = (process: "gateway" | "wait" | "delivery" | "producer" | "runner"): Failpoint[] =>
  FAILPOINTS.filter((point) => point.startsWith(`${process}.`));

test.each(LONG_RUN ? pointsOf("gateway") : ["gateway.after_add" as const])(
  "a gateway killed at %s loses no accepted call and no result, and no call has a second effect",
  async (point) => {
    const [gateway] = stack.gateways as [Part];
    await gateway.restart({ POSTERN_FAILPOINT: point });
    await untilReady(gateway);
    const [ids] = await Promise.all([deliverAll("/effect", point), diesAtItsFailpoint(gateway)]);
    await untilNothingWaits();
    expect(stack.effectsOf(ids)).toEqual(once(ids));
    expect(await resultsOf(ids)).toEqual(answers(ids));
  },
);

onlyInLongRun(() => {
  test.each(pointsOf("wait"))(
    "a gateway killed at %s loses only the wait, and the sender that retries gets the result of the single run",
    async (point) => {
      const [gateway] = stack.gateways as [Part];
      await gateway.restart({ POSTERN_FAILPOINT: point });
      await untilReady(gateway);
      let sendings = 0;
      const sender = eventually("the sender has the result", async () => {
        const { address } = stack.gateways[sendings++ % stack.gateways.length] as Part;
        const sent = { path: "/waiting", headers: { [ID_HEADER]: point }, body: point };
        const answer = await send(address, sent);
        return answer.status === 200 ? answer.text : undefined;
      });
      const [text] = await Promise.all([sender, diesAtItsFailpoint(gateway)]);
      const id = String((JSON.parse(text) as { done: string }).done);
      expect([sendings, stack.effectsOf([id]), await resultsOf([id])]).toEqual([2, [1], [text]]);
    },
  );
});

/** Outcome of a call for a job that the runner does not have. */
const REFUSAL = { code: "runner.refused", title: "No such job" };

const ON_A_REFUSAL: readonly Failpoint[] = ["producer.after_attempt_recorded", "producer.after_failed"];

/**
 * Kills the producer at each point in turn, and finally lets it run. Resolves with the calls sent for each point. Calls
 * wait for the producer's return, because some points precede its start event.
 */
async function killProducersAt(
  points: readonly Failpoint[],
  path: string,
): Promise<Map<Failpoint, string[]>> {
  const [producer] = stack.producers as [Part];
  await producer.kill("SIGKILL");
  const sent = new Map<Failpoint, string[]>();
  for (const point of points) {
    sent.set(point, await deliverAll(path, point));
    await stack.redis.client.sadd(keys.queues, EMPTY_QUEUE);
    await producer.restart({ POSTERN_FAILPOINT: point }).then(
      () => diesAtItsFailpoint(producer),
      (beforeItStarted: Error) => expect(beforeItStarted.message).toContain("ended (SIGKILL)"),
    );
  }
  await producer.restart();
  await untilNothingWaits();
  return sent;
}

test("producers killed during injections lose no call and no result, and no call has a second effect", async () => {
  const all = pointsOf("producer").filter((point) => !ON_A_REFUSAL.includes(point));
  const points = LONG_RUN ? all : (["producer.after_post"] as const);
  const sent = await killProducersAt(points, "/effect");
  const effects = points.map((point) => [point, stack.effectsOf(sent.get(point) ?? [])]);
  expect(effects).toEqual(points.map((point) => [point, Array(CALLS).fill(1)]));
  const ids = [...sent.values()].flat();
  expect(await resultsOf(ids)).toEqual(answers(ids));
});

onlyInLongRun(() => {
  test("if the producer is killed between the runner's 2xx and its record, the effect is unknown, and the retry gets the kept answer", async () => {
    const [producer] = stack.producers as [Part];
    await producer.restart({ POSTERN_FAILPOINT: "producer.after_post" });
    const [id = ""] = await deliverAll("/effect", "unsure", 1);
    await diesAtItsFailpoint(producer);
    expect(await stack.redis.client.hget(keys.record(id), "unsure")).toBeNull();
    await producer.restart();
    await untilNothingWaits();
    expect(await stack.redis.client.hmget(keys.record(id), "st", "unsure")).toEqual(["INJECTED", "1"]);
    expect(stack.effectsOf([id])).toEqual([1]);
    expect(await resultsOf([id])).toEqual(answers([id]));
    expect(await attemptsOf(id)).toEqual([2, "attempt lost 1", "injected 2"]);
  });

  test("producers killed while they record refusals fail each call once with its reason, and lose none", async () => {
    const sent = await killProducersAt(ON_A_REFUSAL, "/unknown");
    const ids = [...sent.values()].flat();
    const failed = (await queues.jobs("failed")).map((job) => job.id);
    expect(failed.toSorted()).toEqual(ids.toSorted());
    for (const id of ids) expect(await stack.redis.client.hget(keys.record(id), "st")).toBe("FAILED");
    for (const id of ids) expect(await results.read(id)).toMatchObject({ kind: "failed", ...REFUSAL });
    const timelines = (await Promise.all(ids.map(attemptsOf))).map((each) => each.join(", "));
    expect(timelines).toContain("2, attempt failed 1, attempt failed 2, failed");
    for (const each of timelines)
      expect(each).toMatch(/^(?:1, |2, attempt (?:lost|failed) 1, )attempt failed \d, failed$/);
  });
});

/** Delivers a call, and kills the producer this many times while the call is in flight. */
async function killProducerDuring(body: string, deaths: number): Promise<string> {
  const [producer] = stack.producers as [Part];
  await producer.restart({ POSTERN_FAILPOINT: "producer.before_post" });
  const id = await deliver("/effect", body);
  for (let death = 1; death <= deaths; death++) {
    await diesAtItsFailpoint(producer);
    await producer.restart(death < deaths ? { POSTERN_FAILPOINT: "producer.before_post" } : {});
  }
  return id;
}

onlyInLongRun(() => {
  test("a call whose producer dies twice does not fail, and has one effect", async () => {
    const id = await killProducerDuring("deadly", 2);
    await eventually("it has its effect", () => stack.effectsOf([id])[0] === 1);
    await untilNothingWaits();
    expect(stack.effectsOf([id])).toEqual([1]);
  });

  test("a call whose producer dies three times fails with its own code", async () => {
    const id = await killProducerDuring("deadlier", 3);
    await eventually("it has failed", async () => (await queues.find(id))?.failedReason !== undefined);
    expect((await queues.find(id))?.failedReason).toMatch(/^call\.poison_pill: /);
    expect(stack.effectsOf([id])).toEqual([0]);
    expect(await attemptsOf(id)).toEqual([3, "attempt lost 1", "attempt lost 2", "attempt lost 3", "failed"]);
  });
});

/** Kills the runner at this point of the calls, and waits until its successor has answered them. */
async function killRunnerAt(point: Failpoint, path: string, count: number): Promise<string[]> {
  await stack.runner.restart({ POSTERN_FAILPOINT: point });
  const back = diesAtItsFailpoint(stack.runner).then(() => stack.runner.restart());
  const [ids] = await Promise.all([deliverAll(path, point, count), back]);
  await untilNothingWaits();
  return ids;
}

/** A runner killed inside a handler runs that call again, because it cannot know whether the effect had happened. */
const INSIDE_A_HANDLER: readonly Failpoint[] = ["runner.in_handler", "runner.after_handler"];
const OF_LONG_JOBS: readonly Failpoint[] = ["runner.after_stored", "runner.after_delivered"];
const OF_SHORT_JOBS = pointsOf("runner").filter(
  (point) => !INSIDE_A_HANDLER.includes(point) && !OF_LONG_JOBS.includes(point),
);

onlyInLongRun(() => {
  // Each call runs alone here, because a dying runner may have other calls inside a handler.
  test.each(OF_SHORT_JOBS)(
    "a runner killed at %s loses no call and no result, and the call has no second effect",
    async (point) => {
      const ids = await killRunnerAt(point, "/effect", 1);
      expect(stack.effectsOf(ids)).toEqual([1]);
      expect(await resultsOf(ids)).toEqual(answers(ids));
    },
  );
});

/** Resolves once the long calls have their results, and all deliveries are done. */
async function untilDelivered(ids: readonly string[]): Promise<void> {
  const isDelivered = async (id: string) => (await results.read(id)).kind !== "pending";
  await eventually("the results are there", async () =>
    (await Promise.all(ids.map(isDelivered))).every(Boolean),
  );
  await eventually(
    "nothing is left to be delivered",
    async () => (await stack.redis.client.exists(runnerKeys.deliveries)) === 0,
  );
}

test.each(sample<Failpoint>([...OF_LONG_JOBS, "runner.after_remembered"]))(
  "a runner killed at %s of a long call runs the call once, and its result is delivered",
  async (point) => {
    const ids = await killRunnerAt(point, "/long", 1);
    await untilDelivered(ids);
    expect(stack.effectsOf(ids)).toEqual([1]);
    expect(await resultsOf(ids)).toEqual(answers(ids));
  },
);

test.each(sample(pointsOf("delivery")))(
  "if a gateway is killed at %s, the result of a long call is delivered again to another gateway",
  async (point) => {
    const [gateway] = stack.gateways as [Part];
    await stack.runner.restart();
    await gateway.restart({ POSTERN_FAILPOINT: point });
    await untilReady(gateway);
    const [ids] = await Promise.all([deliverAll("/long", point, 1), diesAtItsFailpoint(gateway)]);
    await untilDelivered(ids);
    expect(stack.effectsOf(ids)).toEqual([1]);
    expect(await resultsOf(ids)).toEqual(answers(ids));
  },
);

test.each(sample(INSIDE_A_HANDLER))(
  "a runner killed inside a handler, at %s, runs the unfinished handlers again, and not those that had ended",
  async (point) => {
    const ended = await deliverAll("/effect", `before ${point}`);
    await untilNothingWaits();
    const ids = await killRunnerAt(point, "/effect", CALLS);
    expect(stack.effectsOf(ended)).toEqual(once(ended));
    const counts = stack.effectsOf([...ended, ...ids]);
    expect(Math.min(...counts)).toBe(1);
    expect(Math.max(...counts)).toBeLessThanOrEqual(2);
  },
);
