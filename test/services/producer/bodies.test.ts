import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const redis = useRedis();
const producers = useProducer({ redis });
const runner = useFakeRunner();
const postern = usePostern();

const MIB = 2 ** 20;

onlyInLongRun(() => {
  test("a producer with a small memory budget injects every large body, one after the other if necessary", async () => {
    postern.configure({
      postern: {
        redis: { url: redis.url },
        runner: { url: runner.url },
        producer: { body_budget_bytes: 48 * MIB },
      },
    });
    const bodies = Array.from({ length: 12 }, (_, i) => Buffer.alloc(6 * MIB, `${i} `));
    for (const [i, body] of bodies.entries()) await producers.add(aCall({ job_id: 1 + (i % 4), body }));
    const sizes = new Map<string, number>();
    let inFlight = 0;
    let most = 0;
    runner.answer = async (offer) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      sizes.set(String(offer.headers["idempotency-key"]), offer.body.length);
      offer.body = Buffer.alloc(0);
      if (sizes.size === 1) await eventually("another one comes beside the first", () => most > 1);
      await delay(400);
      inFlight -= 1;
      return { status: 200 };
    };
    const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0"], {
      env: { NODE_OPTIONS: "--max-old-space-size=160" },
    });
    let ended = false;
    void producer.exit.then(() => {
      ended = true;
    });
    await eventually("all are injected", () => sizes.size === bodies.length || ended);
    expect(ended).toBe(false);
    expect([...sizes.values()]).toEqual(bodies.map(({ length }) => length));
    // Half of the memory budget is for large calls, and each of these calls is stored with 8 MiB.
    expect(most).toBeGreaterThanOrEqual(2);
    expect(most).toBeLessThanOrEqual(3);
  });
});

test("a call that has ended three producers fails with its own code, and the calls beside it are injected", async () => {
  const [pill, beside] = [aCall(), aCall()];
  for (const call of [pill, beside]) await producers.add(call);
  await redis.client.hset(keys.inQueue("webhook/7/1", pill.id), "stc", 3);
  const { saw, log } = producers.start({ runnerUrl: runner.url });
  await saw("call.failed");
  await saw("call.injected");
  expect(log.events.find(({ event }) => event === "call.failed")?.fields).toMatchObject({
    callId: pill.id,
    code: "call.poison_pill",
  });
  expect(runner.offers.map(({ headers }) => headers["idempotency-key"])).toEqual([beside.id]);
});
