import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { ACT, useFailedCalls, WHY } from "../../fixtures/failed-calls.ts";
import { keys } from "../../fixtures/redis.ts";

const fixture = useFailedCalls();

async function injectedAre(ids: readonly string[]): Promise<void> {
  const states = async () => Promise.all(ids.map((id) => fixture.records.state(id)));
  await eventually("all are injected", async () => (await states()).every((state) => state === "INJECTED"));
}

test("a replayed call has all its attempts again under the same key, however often it was replayed", async () => {
  const [id = ""] = await fixture.fail([{}], "runner.failed");
  expect(fixture.offered(id)).toBe(fixture.attempts);
  fixture.runnerAnswers("runner.failed");
  await fixture.startProducer();
  for (const round of [2, 3]) {
    expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
    await eventually(
      "failed again",
      async () => fixture.offered(id) === round * fixture.attempts && fixture.calls.find(id),
    );
    expect(await fixture.records.state(id)).toBe("FAILED");
    expect((await fixture.find(id)).attempts).toBe(fixture.attempts);
  }
  fixture.runnerAnswers();
  expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
  await injectedAre([id]);
  expect(fixture.offered(id)).toBe(3 * fixture.attempts + 1);
  expect(await fixture.calls.find(id)).toBeUndefined();
});

test("one of several simultaneous replays of a call moves it, the others say that it left, and it runs once", async () => {
  const ids = await fixture.fail(Array.from({ length: 20 }, () => ({})));
  await fixture.startProducer();
  const outcomes = await Promise.all(
    ids.map(async (id) => {
      const failed = await fixture.find(id);
      return Promise.all([
        fixture.replay(failed, WHY),
        fixture.replay(failed, WHY),
        fixture.replay(failed, WHY),
      ]);
    }),
  );
  for (const three of outcomes) expect(three.toSorted()).toEqual(["done", "left", "left"]);
  await injectedAre(ids);
  for (const id of ids) expect(fixture.offered(id)).toBe(2);
  expect(await fixture.audited()).toHaveLength(20);
});

test("a replay that dies after its first step leaves the call listed, and the next replay runs it once", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(
    await createFailedRecords(partitionOf(fixture.redis.client)).beginReplay(await fixture.find(id), ACT),
  ).toBe(true);
  expect(await fixture.audited()).toHaveLength(1);
  await fixture.startProducer();
  expect(await fixture.calls.count({})).toBe(1);
  expect(await fixture.replay(await fixture.find(id), WHY)).toBe("done");
  expect(await fixture.audited()).toHaveLength(1);
  await injectedAre([id]);
  expect(fixture.offered(id)).toBe(2);
});

test("a replay that dies after the move leaves a call that runs", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.replay(await fixture.find(id), WHY);
  expect(await fixture.records.state(id)).toBe("QUEUED");
  await fixture.startProducer();
  await injectedAre([id]);
});

test("a replayed call waits from its replay on, and leaves no keys after its injection", async () => {
  const yesterday = Date.now() - 86_400_000;
  const ids = await fixture.fail(
    Array.from({ length: 30 }, (_, i) => ({ acceptedAt: yesterday, claimed: i % 2 === 0 })),
  );
  const before = Date.now();
  for (const id of ids.slice(0, 5)) await fixture.replay(await fixture.find(id), WHY);
  const [, oldest] = await fixture.redis.client.zrange(keys.since("webhook/7/1"), "0", "0", "WITHSCORES");
  expect(Number(oldest)).toBeGreaterThanOrEqual(before);
  await fixture.startProducer();
  for (const id of ids.slice(5)) await fixture.replay(await fixture.find(id), WHY);
  await injectedAre(ids);
  expect(await fixture.redis.client.zcard(keys.since("webhook/7/1"))).toBe(0);
});

test("a call that failed again after an operator saw it is not replayed by that operator's request", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const found = await fixture.find(id);
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  await fixture.replay(found, WHY);
  await eventually("failed again", async () => fixture.offered(id) === 2 && fixture.calls.find(id));
  expect(await fixture.replay(found, WHY)).toBe("left");
  expect(fixture.offered(id)).toBe(2);
});
