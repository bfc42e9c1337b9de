import { describe, expect, test } from "vitest";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { within } from "../../../../shared/platform/time/clock.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { x402Table } from "../../../fixtures/x402.ts";
import { audited } from "../../../support/audited.ts";
import { LONG_RUN } from "../../../support/long-run.ts";
import { multiplyFailed } from "../../../support/multiply-failed.ts";
import { startHoldingNode } from "../../../support/node-before.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const calls = useFailedCalls({ redis });
  const proxy = useRedisProxy(redis);
  const CALLS = LONG_RUN ? 300 : 120;

  test("a replay that is cancelled half way leaves the other calls unchanged, and processes exactly those after it is resumed", async () => {
    const [id = ""] = await calls.fail([{}]);
    await multiplyFailed(redis.partition, {
      ...{ of: { id, queue: "webhook/7/1" }, copies: CALLS - 1, queues: ["webhook/7/1"], everyMs: -1 },
    });
    const service = await fixture.start({ redisUrl: asUser(proxy.url, "operator") });
    // The delay makes the run last for seconds, and a cancellation needs half a second.
    proxy.replyPauseMs = () => 20;
    const begun = await service.post("/api/v1/failed/replays", {
      all: true,
      concurrency: 1,
      reason: "mended",
    });
    const location = String(begun.headers["location"]);
    await expect
      .poll(async () => (await service.get(location)).json<{ done: number }>().done, {
        interval: 5,
        timeout: 60_000,
      })
      .toBeGreaterThan(0);
    const cancelled = await service.ask("DELETE", location);
    // The run may have ended before the answer is read.
    expect([cancelled.status, cancelled.json()["state"]]).toEqual([
      200,
      expect.stringMatching(/^cancell(ing|ed)$/),
    ]);
    const left = await runIn(service, location, "cancelled");
    proxy.replyPauseMs = () => 0;
    expect(left.done).toBeLessThan(CALLS);
    expect(left.remaining).toBe(CALLS - left.done);
    expect(await calls.calls.count({})).toBe(left.remaining);
    expect((await service.ask("DELETE", location)).json()).toMatchObject({ state: "cancelled" });

    expect((await service.post(`${location}/resume`, {})).status).toBe(202);
    expect(await runIn(service, location, "done")).toMatchObject({
      ...{ matched: CALLS, done: CALLS, remaining: 0, left_meanwhile: 0 },
    });
    expect(await calls.calls.count({})).toBe(0);
    const actions = (await calls.audited()).map(({ action }) => action);
    expect(actions.filter((action) => action !== "replay")).toEqual([
      ...["begin_replay", "cancel_run", "resume_run"],
    ]);
    expect(actions).toHaveLength(CALLS + 3);
  });
});

describe("404", () => {
  test("an unknown bulk operation cannot be cancelled: 404", async () => {
    const { ask } = await fixture.start();
    const answer = await ask("DELETE", `/api/v1/bulk/run_${"0".repeat(32)}`);
    expect(refusalOf(answer)).toEqual([404, "run.unknown"]);
  });
});

describe("bulk operations that read the chain: 200", () => {
  const payments = usePayments();
  const { redis } = payments;
  const fixture = useOperator({ redis });
  const ends = useEnds();

  test("a cancelled audit is shown as cancelling until it has ended", async () => {
    const { ask } = await fixture.start();
    const runs = createRunStore(redis.partition);
    const run = await runs.create({ kind: "refund-check", by: "vera", request: {} });
    await runs.take("somebody else", 60_000, ["refund-check"]);
    const cancelled = await ask("DELETE", `/api/v1/bulk/${run.id}`);
    expect(cancelled.status).toBe(200);
    expect((await runs.find(run.id))?.isCancelling || cancelled.json()["state"] === "cancelled").toBe(true);
    await ask("DELETE", `/api/v1/bulk/${run.id}`);
    expect(await audited(redis.client)).toMatchObject([
      { action: "cancel_run", run: run.id, by: "otto", selection: "refund-check" },
    ]);
  });

  /** Much shorter than the console's timeout for a node's answer. */
  const SOON_MS = 20_000;

  /** Starts an audit whose node holds every search for logs. */
  async function beginAtSlowNode() {
    const { devnet, postern } = payments;
    const node = await startHoldingNode(devnet.rpcUrl, ({ method }) => method === "eth_getLogs");
    ends.defer(node.close);
    postern.configure({
      postern: { redis: { url: asUser(redis.url, "operator") } },
      x402: x402Table({ devnet, token: { rpc_url: node.url } }),
    });
    const { configDir } = postern;
    const service = await fixture.start({ configDir });
    const begun = await service.post("/api/v1/payments/audits", {});
    await eventually("the node is asked", () => node.held() === 1);
    return { node, configDir, service, location: String(begun.headers["location"]) };
  }

  test("an audit that waits for its node ends when it is cancelled, and sends no further request", async () => {
    const { node, service, location } = await beginAtSlowNode();
    expect((await service.ask("DELETE", location)).status).toBe(200);
    expect(await within(SOON_MS, runIn(service, location, "cancelled"))).toMatchObject({ kind: "done" });
    expect([node.held(), node.asked.at(-1)?.method]).toEqual([1, "eth_getLogs"]);
  });

  test("an audit does not delay the end of its process, and the next process starts it again from the beginning", async () => {
    const { node, configDir, service, location } = await beginAtSlowNode();
    expect(await within(SOON_MS, service.close())).toMatchObject({ kind: "done" });
    expect(node.held()).toBe(1);
    node.release();
    const next = await fixture.start({ configDir });
    expect(await runIn(next, location, "done")).toMatchObject({ failure: null });
  });
});

describe("bulk operations that read the chain: 404", () => {
  const fixture = useOperator();

  test("an unknown audit cannot be cancelled: 404", async () => {
    const { ask } = await fixture.start();
    const refused = await ask("DELETE", `/api/v1/bulk/run_${"0".repeat(32)}`);
    expect(refusalOf(refused)).toEqual([404, "run.unknown"]);
  });
});
