import { expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { createCallHistory } from "../../../shared/call-search/history/keep.ts";
import { createReadHistory } from "../../../shared/call-search/history/read.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { FAILPOINTS, type Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { aCall } from "../../fixtures/producer.ts";
import { asUser, keys } from "../../fixtures/redis.ts";
import { runHereWith } from "../../services/cli/run-here.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { startConsole } from "./start-console.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

/** Runs commands that are not killed inside this process. */
const here = runHereWith(postern);

const pointsOf = (what: string) =>
  FAILPOINTS.filter((point) => point.startsWith("operator.") && point.endsWith(what));

test("this file kills the operator's commands at each of their failpoints", () => {
  const own = FAILPOINTS.filter((point) => point.startsWith("operator."));
  const ends = ["_forgotten", "_replayed", "_dropped", "_released"];
  expect(ends.flatMap(pointsOf)).toEqual(own);
});

/** Makes a producer remember the call. Returns a function that tells whether it still remembers. */
async function remember(id: string): Promise<() => Promise<boolean>> {
  const history = createCallHistory({
    ...{ partition: fixture.redis.partition, clock: systemClock, log: silentLogger },
    limits: { keptMs: 3_600_000, calls: 10, bytes: 100_000 },
  });
  history.add(aCall({ id }), { attempts: 1 });
  await history.stop();
  return async () => (await createReadHistory(fixture.redis.partition)({ id }).next()).done !== true;
}

test.each(sample(pointsOf("_forgotten").toReversed()))(
  "postern calls forget killed at %s has changed nothing, or has deleted everything with its audit entry, and a repeat completes it once",
  async (point) => {
    const [id = ""] = await fixture.fail([{}]);
    const remembered = await remember(id);
    const forget = ["calls", "forget", id, "--reason", "a test", "--yes"];
    const killed = await postern.run(forget, { env: { POSTERN_FAILPOINT: point } });
    expect(killed).toMatchObject({ code: null, stdout: "", stderr: "" });
    const left = await fixture.redis.client.exists(keys.inQueue("webhook/7/1", id), keys.attempts(id));
    const audited = (await fixture.audited()).length;
    expect([left, audited, await fixture.records.state(id)]).toEqual(
      point === "operator.before_forgotten" ? [2, 0, "FAILED"] : [0, 1, "DISCARDED"],
    );
    expect(await here(forget)).toMatchObject({ code: 0 });
    expect(await fixture.audited()).toMatchObject([{ action: "forget", call_id: id, reason: "a test" }]);
    expect(await fixture.redis.client.exists(keys.inQueue("webhook/7/1", id), keys.attempts(id))).toBe(0);
    expect(await remembered()).toBe(false);
  },
);

const PATH = "/hooks/a";

/** Ways to enable the endpoint in a process that is killed at this failpoint. */
const ENABLERS = {
  "postern endpoints enable": (env: NodeJS.ProcessEnv) => postern.run(["endpoints", "enable", PATH], { env }),
  async "the console"({ POSTERN_FAILPOINT }: { POSTERN_FAILPOINT: Failpoint }) {
    const { ask, exit } = await startConsole(postern, POSTERN_FAILPOINT);
    await ask("POST", "/api/v1/endpoints/state", { path: PATH, state: "enabled", reason: "a test" }).catch(
      () => {},
    );
    return exit;
  },
};

onlyInLongRun(() => {
  test.each(pointsOf("_replayed").toReversed())(
    "postern calls replay killed at %s has changed nothing, or has queued the new call with its audit entry",
    async (point) => {
      const id = await fixture.add({ keepDelivered: { secs: 3600, bytes_max: 100_000 } });
      await fixture.startProducer();
      await eventually("it has ended", async () => (await fixture.records.state(id)) === "INJECTED");
      await fixture.stopProducer();
      const args = ["calls", "replay", id, "--reason", "a test"];
      const killed = await postern.run(args, { env: { POSTERN_FAILPOINT: point } });
      expect(killed).toMatchObject({ code: null, stdout: "", stderr: "" });
      const waiting = await fixture.redis.client.lrange(keys.inQueue("webhook/7/1", "wait"), 0, -1);
      const lines = await fixture.audited();
      expect([waiting.length, lines.length]).toEqual(point === "operator.before_replayed" ? [0, 0] : [1, 1]);
      for (const [i, line] of lines.entries()) expect(line).toMatchObject({ selection: `as ${waiting[i]}` });
    },
  );

  test.each(pointsOf("_dropped").toReversed())(
    "postern payments resolve --dropped killed at %s has changed nothing, or has dropped the body with its audit entry, and a repeat completes it once",
    async (point) => {
      const { client, partition } = fixture.redis;
      const journal = new PaymentJournal(partition);
      const id = await claimPayment(journal, { network: "eip155:84532", asset: `0x${"5".repeat(40)}` });
      const drop = ["payments", "resolve", id, "--dropped", "--reason", "a test"];
      const left = async () => [
        (await journal.findWithoutCall(id))?.callBytes !== 0,
        await client.hexists(keys.paymentsUsage, id),
        (await fixture.audited()).length,
      ];
      const killed = await postern.run(drop, { env: { POSTERN_FAILPOINT: point } });
      expect(killed).toMatchObject({ code: null, stdout: "", stderr: "" });
      expect(await left()).toEqual(point === "operator.before_dropped" ? [true, 1, 0] : [false, 0, 1]);
      expect(await here(drop)).toMatchObject({ code: 0 });
      expect(await left()).toEqual([false, 0, 1]);
      expect(await fixture.audited()).toMatchObject([{ action: "drop", call_id: id, reason: "a test" }]);
    },
  );

  test.each(Object.entries(ENABLERS))(
    "if %s is killed between two steps, the endpoint stays held, and enabling it again delivers all calls once in their order",
    async (_, enable) => {
      const { partition, partitions } = fixture.redis;
      const endpoints = openEndpoints(partitions);
      const because = { at: 1, by: "otto", reason: "a test" };
      const enqueue = createEnqueue(partition);
      const add = (id: string) => enqueue(aCall({ id }), undefined, "small", PATH);
      await endpoints.set(PATH, "held", because);
      const ids = Array.from({ length: 250 }, (_, i) => `c_${String(i).padStart(32, "0")}`);
      for (const id of ids) await add(id);
      expect(await enable({ POSTERN_FAILPOINT: "operator.after_released" })).toMatchObject({ code: null });
      expect((await endpoints.settings()).get(PATH)).toMatchObject({ state: "held" });
      expect(await endpoints.held([PATH])).toEqual([150]);
      const later = `c_${"f".repeat(32)}`;
      await add(later);
      expect(await here(["endpoints", "enable", PATH])).toMatchObject({ code: 0 });
      expect(await endpoints.settings()).toEqual(new Map());
      const waiting = await fixture.redis.client.lrange(keys.inQueue("webhook/7/1", "wait"), 0, -1);
      expect(waiting.toReversed()).toEqual([...ids, later]);
      await fixture.startProducer();
      await eventually("all are injected", () => fixture.injected.length >= waiting.length);
      expect(fixture.injected.toSorted()).toEqual(waiting.toSorted());
    },
  );
});
