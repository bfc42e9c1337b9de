import { Job } from "bullmq";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../shared/dev/wait.ts";
import { createFailedRecords } from "../../shared/queue/call-record.ts";
import { JOB_NAME, openQueue } from "../../shared/queue/protocol.ts";
import { keys, PREFIX } from "../../shared/redis/keys.ts";
import { type Lab, startLab, WHY, WINDOW_MS } from "./failed-lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterEach(() => lab.clear());
afterAll(() => lab.stop());

const why = { ...WHY, reason: "not wanted" };

async function jobIsGone(id: string): Promise<boolean> {
  return (await lab.redis.exists(`${PREFIX}:webhook:${id}`)) === 0;
}

test("a discarded call is DISCARDED to a repeat of its delivery for the window, and its body is gone", async () => {
  const [id = ""] = await lab.fail([{}]);
  const failed = await lab.find(id);
  expect(await lab.discard(failed, why)).toBe("done");
  expect(await jobIsGone(id)).toBe(true);
  expect(await lab.calls.count({})).toBe(0);
  const again = await lab.claims.claim(id, failed.call?.sha256 ?? "", {
    windowMs: WINDOW_MS,
    now: Date.now(),
    by: "a test",
  });
  expect(again).toEqual({ kind: "known", state: "DISCARDED" });
  const ttl = await lab.redis.pttl(keys.record(id));
  expect(ttl).toBeGreaterThan(WINDOW_MS - 60_000);
  expect(ttl).toBeLessThanOrEqual(WINDOW_MS);
});

test("a call without evidence can be discarded too", async () => {
  const [id = ""] = await lab.fail([{ claimed: false }]);
  expect(await lab.discard(await lab.find(id), why)).toBe("done");
  expect(await jobIsGone(id)).toBe(true);
});

test("a call that was replayed meanwhile is not discarded but runs", async () => {
  const [id = ""] = await lab.fail([{}]);
  const failed = await lab.find(id);
  await lab.replay(failed, WHY);
  expect(await lab.discard(failed, why)).toBe("left");
  expect(await lab.records.state(id)).toBe("QUEUED");
  await lab.startProducer();
  await eventually("injected", async () => (await lab.records.state(id)) === "INJECTED");
  expect(lab.offered(id)).toBe(2);
});

test("of a replay and a discard at once, exactly one happens", async () => {
  const ids = await lab.fail(Array.from({ length: 40 }, () => ({})));
  await lab.startProducer();
  const outcomes = await Promise.all(
    ids.map(async (id, i) => {
      const failed = await lab.find(id);
      const both = [() => lab.replay(failed, WHY), () => lab.discard(failed, why)];
      await Promise.all((i % 2 === 0 ? both : both.toReversed()).map((operate) => operate()));
      await eventually("ended", async () => {
        const state = await lab.records.state(id);
        return (state === "INJECTED" || state === "DISCARDED") && (await jobIsGone(id));
      });
      return { ran: lab.offered(id) === 2, state: await lab.records.state(id) };
    }),
  );
  for (const { ran, state } of outcomes) expect(state).toBe(ran ? "INJECTED" : "DISCARDED");
});

test("a discard that dies after its first step is final: no replay runs the call, and the next discard removes it", async () => {
  const [id = ""] = await lab.fail([{}]);
  expect(await createFailedRecords(lab.redis).discarding(await lab.find(id), Date.now())).toBe(true);
  expect(await lab.replay(await lab.find(id), WHY)).toBe("left");
  expect(await lab.discard(await lab.find(id), why)).toBe("done");
  expect(await jobIsGone(id)).toBe(true);
});

test("a replay that had begun before a discard may still move the call, which the producer then drops", async () => {
  const [id = ""] = await lab.fail([{}]);
  const failed = await lab.find(id);
  const records = createFailedRecords(lab.redis);
  expect(await records.replaying(failed, Date.now())).toBe(true);
  expect(await records.discarding(failed, Date.now())).toBe(true);
  await new Job(openQueue(lab.redis, "webhook"), JOB_NAME, {}, {}, id).retry("failed");
  await lab.startProducer();
  await eventually("the job is gone", () => jobIsGone(id));
  expect(lab.offered(id)).toBe(1);
  expect(await lab.records.state(id)).toBe("DISCARDED");
});

test("the first step of a replay does not keep a call from being discarded", async () => {
  const [id = ""] = await lab.fail([{}]);
  await createFailedRecords(lab.redis).replaying(await lab.find(id), Date.now());
  expect(await lab.discard(await lab.find(id), why)).toBe("done");
  expect(await lab.redis.zcard(keys.since("webhook"))).toBe(0);
});
