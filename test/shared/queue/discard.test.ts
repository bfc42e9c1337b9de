import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { openBackends } from "../../../shared/queue/backend.ts";
import { noteOf } from "../../../shared/queue/call-log.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { ACT, useFailedCalls, WHY, WINDOW_MS } from "../../fixtures/failed-calls.ts";
import { keys } from "../../fixtures/redis.ts";

const fixture = useFailedCalls();

const why = { ...WHY, reason: "not wanted" };
const NOTE = noteOf("a test", "not wanted");

async function jobIsGone(id: string): Promise<boolean> {
  return (await fixture.redis.client.exists(keys.inQueue("webhook/7/1", id))) === 0;
}

test("a repeat of a discarded call's delivery is answered as DISCARDED for the window, and the body is deleted", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const failed = await fixture.find(id);
  expect(await fixture.discard(failed, why)).toBe("done");
  expect(await jobIsGone(id)).toBe(true);
  expect(await fixture.calls.count({})).toBe(0);
  expect(await fixture.records.state(id)).toBe("DISCARDED");
  const ttl = await fixture.redis.client.pttl(keys.record(id));
  expect(ttl).toBeGreaterThan(WINDOW_MS - 60_000);
  expect(ttl).toBeLessThanOrEqual(WINDOW_MS);
});

test("a failed call without a delivery id can also be discarded", async () => {
  const [id = ""] = await fixture.fail([{ claimed: false }]);
  expect(await fixture.discard(await fixture.find(id), why)).toBe("done");
  expect(await jobIsGone(id)).toBe(true);
});

test("a failed call that was replayed meanwhile is not discarded but runs", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const failed = await fixture.find(id);
  await fixture.replay(failed, WHY);
  expect(await fixture.discard(failed, why)).toBe("left");
  expect(await fixture.records.state(id)).toBe("QUEUED");
  await fixture.startProducer();
  await eventually("injected", async () => (await fixture.records.state(id)) === "INJECTED");
  expect(fixture.offered(id)).toBe(2);
});

test("exactly one of a simultaneous replay and discard of a call takes effect", async () => {
  const ids = await fixture.fail(Array.from({ length: 40 }, () => ({})));
  await fixture.startProducer();
  const outcomes = await Promise.all(
    ids.map(async (id, i) => {
      const failed = await fixture.find(id);
      const both = [() => fixture.replay(failed, WHY), () => fixture.discard(failed, why)];
      await Promise.all((i % 2 === 0 ? both : both.toReversed()).map((operate) => operate()));
      await eventually("ended", async () => {
        const state = await fixture.records.state(id);
        return (state === "INJECTED" || state === "DISCARDED") && (await jobIsGone(id));
      });
      return { ran: fixture.offered(id) === 2, state: await fixture.records.state(id) };
    }),
  );
  for (const { ran, state } of outcomes) expect(state).toBe(ran ? "INJECTED" : "DISCARDED");
});

test("a discard that dies after its first step is final: no replay runs the call, and the next discard removes it", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(
    await createFailedRecords(partitionOf(fixture.redis.client)).beginDiscard(await fixture.find(id), ACT),
  ).toBe("done");
  expect(await fixture.audited()).toHaveLength(1);
  expect(await fixture.replay(await fixture.find(id), WHY)).toBe("left");
  expect(await fixture.discard(await fixture.find(id), why)).toBe("finished");
  expect(await jobIsGone(id)).toBe(true);
  expect(await fixture.audited()).toHaveLength(1);
});

test("a replay that began before a discard may still move the call, and the producer then drops it", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const failed = await fixture.find(id);
  const records = createFailedRecords(partitionOf(fixture.redis.client));
  expect(await records.beginReplay(failed, ACT)).toBe(true);
  expect(await records.beginDiscard(failed, ACT)).toBe("done");
  await openBackends(partitionOf(fixture.redis.client))(failed.queue).replay(id, NOTE);
  await fixture.startProducer();
  await eventually("the job is gone", () => jobIsGone(id));
  expect(fixture.offered(id)).toBe(1);
  expect(await fixture.records.state(id)).toBe("DISCARDED");
});

test("the first step of a replay does not prevent a discard of the call", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await createFailedRecords(partitionOf(fixture.redis.client)).beginReplay(await fixture.find(id), ACT);
  expect(await fixture.discard(await fixture.find(id), why)).toBe("done");
  expect(await fixture.redis.client.zcard(keys.since("webhook/7/1"))).toBe(0);
});
