import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { PRICE, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { type Fault, type RedisProxy, startRedisProxy } from "../../../../support/redis-proxy.ts";
import { STEPS, type Step } from "../../redis-steps.ts";

const fixture = useX402();
let proxy: RedisProxy;

beforeEach(async () => {
  proxy = await startRedisProxy(fixture.redis.url);
});
afterEach(async () => {
  proxy.onCommand = () => undefined;
  await proxy.close();
});

/** The fault befalls this step so many times. */
function fault(step: Step, kind: Fault["kind"], times: number): () => number {
  let left = times;
  proxy.onCommand = (words) => {
    if (left === 0 || !step(words)) return undefined;
    left -= 1;
    return { kind } as Fault;
  };
  return () => times - left;
}

const NAMES = Object.keys(STEPS) as (keyof typeof STEPS)[];

const gateway = () => fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });

describe("Redis gone once, at this step of a paid request: one charge and one job", () => {
  const kinds = ["lose-reply", "lose-command", "hang"] as const;
  test.each(NAMES.flatMap((step) => kinds.map((kind) => [step, kind] as const)))(
    "%s, %s",
    async (step, kind) => {
      const x402 = await gateway();
      const header = await x402.pay({ payer: fixture.payer });
      const befell = fault(STEPS[step], kind, 1);
      const first = await x402.post(header);
      expect(befell()).toBe(1);
      expect([202, 503]).toContain(first.status);
      const last = await eventually("the same payment has its 202", async () => {
        const answer = await x402.post(header);
        return answer.status === 202 && answer;
      });
      await eventually("its call waits", async () => (await x402.waiting()).length > 0, 30_000);
      expect((await x402.waiting()).map(({ id }) => id)).toEqual([(last || first).json()["call_id"]]);
      expect(await fixture.charged()).toEqual([PRICE]);
    },
  );
});

describe("Redis gone for good", () => {
  test.each(["find", "claim"] as const)("at %s: 503, and no settle request is ever sent", async (step) => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    fault(STEPS[step], "lose-command", Number.POSITIVE_INFINITY);
    const answer = await x402.post(header);
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBeDefined();
    expect([(await fixture.asked()).settle, await fixture.charged()]).toEqual([0, []]);
  });

  test("after the claim was written: 503 that tells to send the same payment again, which is then one charge", async () => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    fault(STEPS.claim, "lose-reply", Number.POSITIVE_INFINITY);
    const answer = await x402.post(header);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    expect(answer.json()["status_url"]).toMatch(/\/x402\/calls\/c_[0-9a-f]{32}$/);
    expect(answer.headers["retry-after"]).toBeDefined();
    proxy.onCommand = () => undefined;
    const last = await eventually("the same payment has its 202", async () => {
      const again = await x402.post(header);
      return again.status === 202 ? again : undefined;
    });
    expect(last.json()["status_url"]).toBe(answer.json()["status_url"]);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("while a repeat waits for the settlement: 503 that tells to send the same payment again", async () => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 1500, times: 1 });
    const first = x402.post(header);
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    // The first look finds the payment, the next ones find no Redis.
    let looks = 0;
    proxy.onCommand = (words) => (STEPS.find(words) && ++looks > 1 ? { kind: "lose-command" } : undefined);
    const repeat = await x402.post(header);
    expect([repeat.status, repeat.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    expect(repeat.json()["status_url"]).toBeDefined();
    proxy.onCommand = () => undefined;
    expect([202, 503]).toContain((await first).status);
    await eventually("its job", async () => (await x402.post(header)).status === 202, 30_000);
  });

  test("for who asks for a call's state: 503, and to ask again", async () => {
    const x402 = await gateway();
    fault(STEPS.find, "lose-command", Number.POSITIVE_INFINITY);
    const path = `/x402/calls/c_${"0".repeat(32)}`;
    const answer = await send(x402.address, { method: "GET", path });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });

  test("after the settle request: 503 that tells to send the same payment again, and never a 402", async () => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    fault(STEPS.settled, "lose-command", Number.POSITIVE_INFINITY);
    const answer = await x402.post(header);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
    proxy.onCommand = () => undefined;
    await eventually(
      "the reconciler brings the job",
      async () => (await x402.waiting()).length === 1,
      30_000,
    );
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});
