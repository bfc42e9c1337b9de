import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { callbackId, type Ending } from "../../../shared/call/callback.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS, type Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { CALLBACK_SECRET, type TestReceiver, useReceivers } from "../../fixtures/receivers.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { openQueues, type TestQueues } from "../../support/queues.ts";

const CALLS = 3;
const ID_HEADER = "X-Delivery-Id";

const startReceiver = useReceivers();
let receiver: TestReceiver;
beforeAll(async () => {
  receiver = await startReceiver();
});
beforeEach(() => {
  receiver.received.length = 0;
  receiver.answer = () => ({ status: 204 });
});

const endpoint = () => ({ auth: "none", idempotency_header: ID_HEADER, callback_url: receiver.url });
/** Gateway 0 is killed; gateway 1 accepts the repeats. */
const stack = useStack(() => ({
  endpoints: [
    { ...endpoint(), path: "/effect", job_id: 1 },
    { ...endpoint(), path: "/long", job_id: 2 },
    { ...endpoint(), path: "/unknown", job_id: 404 },
  ],
  gateways: 2,
  deliveries: true,
  postern: {
    producer: { lock_ms: 1000 },
    runner: { timeout_ms: 800, lease_ms: 1000 },
    callbacks: {
      ...{ secret: CALLBACK_SECRET, allow_cidrs: ["127.0.0.1"], timeout_ms: 900, attempts: 1000 },
      backoff: { base_ms: 50, cap_ms: 500 },
    },
  },
}));
let queues: TestQueues;
beforeAll(() => {
  queues = openQueues(stack.redis.client);
});
afterAll(() => queues?.close());

const pointsOf = (...processes: string[]): Failpoint[] =>
  FAILPOINTS.filter((point) => processes.some((process) => point.startsWith(`${process}.`)));

/** Sends one delivery until it gets its 202, as a sender does that knows only the answers. */
function deliver(path: string, id: string): Promise<string> {
  let sendings = 0;
  return eventually(`${id} is accepted`, async () => {
    const gateway = stack.gateways[sendings++ % stack.gateways.length] as Part;
    const answer = await send(gateway.address, { path, headers: { [ID_HEADER]: id }, body: id });
    return answer.status === 202 ? String(answer.json()["call_id"]) : undefined;
  });
}

const deliverAll = (path: string, name: string, count = CALLS): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => deliver(path, `${path} ${name}-${i}`)));

async function diesAtItsFailpoint({ process }: Part): Promise<void> {
  expect((await process.exit).signal, `${process.name} dies at its failpoint`).toBe("SIGKILL");
}

const untilNothingWaits = (): Promise<unknown> =>
  eventually("nothing waits", async () => (await queues.countIn("wait", "active", "delayed")) === 0);

/** Checks that each of these calls, and no other, was reported with this ending. */
async function expectReported(ids: readonly string[], ending: Ending): Promise<void> {
  await untilNothingWaits();
  const told = new Set(
    receiver.received.map(({ id, event }) => `${event.type} ${id} ${event.data["call_id"]}`),
  );
  expect([...told].sort()).toEqual(ids.map((id) => `${ending} ${callbackId(id, ending)} ${id}`).sort());
}

/** Makes the receiver refuse a callback for a call that has not ended, because it would be too early. */
function refuseEarlyCallbacks(): void {
  receiver.answer = ({ event: { type, data } }) => {
    const isEarly = type === "call.completed" && stack.effectsOf([String(data["call_id"])])[0] !== 1;
    return { status: isEarly ? 410 : 204 };
  };
}

/** Kills the producer at each point in turn, and finally lets it run. Resolves with the calls sent meanwhile. */
async function killProducersAt(points: readonly Failpoint[], path: string, name = ""): Promise<string[]> {
  const [producer] = stack.producers as [Part];
  await producer.kill("SIGKILL");
  const sent: string[] = [];
  for (const point of points) {
    sent.push(...(await deliverAll(path, `${name}${point}`)));
    await stack.redis.client.sadd(keys.queues, "webhook/7/1000");
    await producer.restart({ POSTERN_FAILPOINT: point }).then(
      () => diesAtItsFailpoint(producer),
      (beforeItStarted: Error) => expect(beforeItStarted.message).toContain("ended (SIGKILL)"),
    );
  }
  await producer.restart();
  return sent;
}

const ON_A_FAILURE: readonly Failpoint[] = ["producer.after_attempt_recorded", "producer.after_failed"];

onlyInLongRun(() => {
  test("producers killed at every point of a call and its callback report each call, and none before its end", async () => {
    refuseEarlyCallbacks();
    const points = pointsOf("producer", "callback").filter((point) => !ON_A_FAILURE.includes(point));
    const ids = await killProducersAt(points, "/effect");
    await expectReported(ids, "call.completed");
    expect(stack.effectsOf(ids)).toEqual(ids.map(() => 1));
    expect(await queues.countIn("failed")).toBe(0);
  });
});

test("producers killed at every point of a failure report each failed call", async () => {
  const points = [...ON_A_FAILURE, "producer.after_finish", ...pointsOf("callback")] as const;
  const ids = await killProducersAt(sample(points), "/unknown");
  await expectReported(ids, "call.failed");
  expect(await queues.countIn("failed")).toBe(ids.length);
});

onlyInLongRun(() => {
  test("producers killed while a receiver refuses lose no attempt, and deliver the callback in the end", async () => {
    let refusals = 0;
    receiver.answer = () => ({ status: refusals++ < 6 ? 500 : 204 });
    const ids = await killProducersAt(
      ["producer.after_attempt_recorded", "producer.after_finish"],
      "/effect",
      "refused ",
    );
    await expectReported(ids, "call.completed");
  });

  test("a call whose producer dies three times while it is in flight is reported as failed", async () => {
    const [producer] = stack.producers as [Part];
    await producer.restart({ POSTERN_FAILPOINT: "producer.before_post" });
    const id = await deliver("/effect", "deadly");
    for (let death = 1; death <= 3; death++) {
      await diesAtItsFailpoint(producer);
      await producer.restart(death < 3 ? { POSTERN_FAILPOINT: "producer.before_post" } : {});
    }
    const { event } = await receiver.got();
    expect(event.data["failure"]).toMatchObject({ code: "call.poison_pill" });
    await expectReported([id], "call.failed");
  });

  test.each(sample(pointsOf("gateway")))(
    "a gateway killed at %s loses no callback of a call that it accepted",
    async (point) => {
      const [gateway] = stack.gateways as [Part];
      await gateway.restart({ POSTERN_FAILPOINT: point });
      await untilReady(gateway);
      const [ids] = await Promise.all([deliverAll("/effect", point), diesAtItsFailpoint(gateway)]);
      await expectReported(ids, "call.completed");
    },
  );

  test.each(pointsOf("delivery"))(
    "a gateway killed at %s of a long call's result notifies the receiver once the result is stored",
    async (point) => {
      const [gateway] = stack.gateways as [Part];
      // The runner first finishes its deliveries. Then it delivers to the first gateway.
      await stack.runner.kill("SIGTERM");
      await stack.runner.restart();
      await gateway.restart({ POSTERN_FAILPOINT: point });
      await untilReady(gateway);
      const [[id = ""]] = await Promise.all([deliverAll("/long", point, 1), diesAtItsFailpoint(gateway)]);
      const { event } = await receiver.got();
      expect(event.data["result"]).toMatchObject({ status: 200, body: JSON.stringify({ done: id }) });
      await expectReported([id], "call.completed");
    },
  );
});
