import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import type { Fault } from "../../../../fixtures/redis-proxy.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { PRICE, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import type { Answer } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { STEPS, type Step } from "../../redis-steps.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

/** Makes this step fail `times` times. Returns a function that counts the failures. */
function fault(step: Step, kind: Fault["kind"], times = Number.POSITIVE_INFINITY): () => number {
  let left = times;
  proxy.onCommand = (words) => {
    if (left === 0 || !step(words)) return undefined;
    left -= 1;
    return { kind } as Fault;
  };
  return () => times - left;
}

function heal(): void {
  proxy.onCommand = () => undefined;
}

const SETTLE_TIMEOUT_MS = 10_000;

/** Starts a gateway with short timeouts for Redis, but long enough for a busy machine. */
const gateway = () =>
  fixture.gateway({
    redisUrl: proxy.url,
    directUrl: fixture.redis.url,
    x402: { settle_timeout_secs: SETTLE_TIMEOUT_MS / 1000 },
    commandTimeoutMs: 1000,
    enqueueTimeoutMs: 2500,
  });

/** Sends a payment until it is accepted. The reconciler runs without the usual wait for a settle request's answer. */
const accepted = (x402: TestX402, headers: Record<string, string>): Promise<Answer> => {
  x402.skip(SETTLE_TIMEOUT_MS);
  return eventually("the same payment has its 202", async () => {
    const answer = await x402.post(headers);
    return answer.status === 202 ? answer : undefined;
  });
};

const KINDS: Record<string, Fault["kind"]> = {
  "does not get": "lose-command",
  "does not answer": "lose-reply",
  "hangs after": "hang",
};
const STEP_NAMES: Record<keyof typeof STEPS, string> = {
  find: "search for the payment",
  claim: "claim",
  settled: "settlement with the added call",
};
const once = Object.keys(KINDS).flatMap((kind) =>
  (Object.keys(STEPS) as (keyof typeof STEPS)[]).map((step) => [kind, STEP_NAMES[step], step] as const),
);

test.each(sample(once, 3))(
  "a payment is one charge and one job though Redis once %s the %s",
  async (how, _name, step) => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    const countFaults = fault(STEPS[step], KINDS[how] as Fault["kind"], 1);
    const first = await x402.post(header);
    expect(countFaults()).toBe(1);
    expect([202, 503]).toContain(first.status);
    const last = await accepted(x402, header);
    await eventually("its call waits", async () => (await x402.waiting()).length > 0);
    expect((await x402.waiting()).map(({ id }) => id)).toEqual([last.json()["call_id"]]);
    expect(await fixture.charged()).toEqual([PRICE]);
  },
);

test.each(sample(["claim", "find"] as const))(
  "while Redis never gets the %s of a payment, it is 503 and no settle request is sent",
  async (step) => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    fault(STEPS[step], "lose-command");
    const answer = await x402.post(header);
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBeDefined();
    expect([(await fixture.asked()).settle, await fixture.charged()]).toEqual([0, []]);
  },
);

test("a payment whose claim may have been written gets 503, and is charged once when it is sent again", async () => {
  const x402 = await gateway();
  const header = await x402.pay({ payer: fixture.payer });
  fault(STEPS.claim, "lose-reply");
  const answer = await x402.post(header);
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  expect(answer.json()["status_url"]).toMatch(/\/x402\/calls\/c_[0-9a-f]{32}$/);
  expect(answer.headers["retry-after"]).toBeDefined();
  heal();
  const last = await accepted(x402, header);
  expect(last.json()["status_url"]).toBe(answer.json()["status_url"]);
  expect(await fixture.charged()).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("a repeat that waits for the settlement when Redis becomes unreachable is 503, and gets its job afterwards", async () => {
    const x402 = await gateway();
    const header = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 3000, times: 1 });
    const first = x402.post(header);
    await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
    // The first read finds the payment. Redis is unreachable for the next ones.
    let looks = 0;
    proxy.onCommand = (words) => (STEPS.find(words) && ++looks > 1 ? { kind: "lose-command" } : undefined);
    const repeat = await x402.post(header);
    expect([repeat.status, repeat.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    expect(repeat.json()["status_url"]).toBeDefined();
    heal();
    expect([202, 503]).toContain((await first).status);
    await accepted(x402, header);
  });
});

test("a payment whose settlement cannot be recorded is 503 and never 402, and its job is queued later without a request", async () => {
  const x402 = await gateway();
  const header = await x402.pay({ payer: fixture.payer });
  fault(STEPS.settled, "lose-command");
  const answer = await x402.post(header);
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
  heal();
  x402.skip(SETTLE_TIMEOUT_MS);
  await eventually("the reconciler brings the job", async () => (await x402.waiting()).length === 1);
  expect(await fixture.charged()).toEqual([PRICE]);
});
