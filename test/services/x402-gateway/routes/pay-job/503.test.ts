import type { TomlTable } from "smol-toml";
import { describe, expect, test } from "vitest";
import type { FaultOrder } from "../../../../../services/dev/chain/faults.ts";
import type { JobCall } from "../../../../../shared/call/job-call.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import type { Pressure } from "../../../../../shared/ingress/backpressure.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { idIn, PRICE, signOffer, type TestX402Options, useX402 } from "../../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { rateless } from "../../rateless.ts";
import { BY_PAYER, restrictedJobs } from "../../restricted-jobs.ts";

const redis = useOwnRedis();
const fixture = useX402({ redis });

const limits: Record<string, [NonNullable<TestX402Options["limits"]>, (seen: Pressure) => boolean]> = {
  "queue depth": [{ queue_depth_max: 1 }, ({ depth }) => depth.waiting >= 1],
  "age of the job's oldest call": [{ oldest_age_secs_max: 0.001 }, ({ oldestAgeMs }) => oldestAgeMs > 1],
};

test.each(sample(Object.entries(limits)))(
  "above the limit of %s a payment is 503 before a facilitator is called, and accepted once there is capacity",
  async (name, [limit, isOver]) => {
    const x402 = await fixture.gateway({ limits: limit });
    const pressureIs = (over: boolean) =>
      eventually("the gateway has looked", () => {
        const seen = x402.gateway.pressures().flatMap((each) => each ?? []);
        return seen.length > 0 && seen.some(isOver) === over;
      });
    const [inQueue, v2] = [
      await x402.pay({ payer: fixture.payer }),
      await x402.pay({ payer: fixture.payer }),
    ];
    const v1 = await x402.payV1({ payer: fixture.payer });
    await pressureIs(false);
    expect((await x402.post(inQueue)).status).toBe(202);
    await pressureIs(true);

    await fixture.devnet.control.clearRequests();
    for (const headers of [v2, v1]) {
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.overloaded"]);
      expect(answer.json()["detail"]).toContain(name);
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([PRICE]);

    const [call] = await x402.queues.jobs("wait");
    await x402.queues.remove(String(call?.id));
    await pressureIs(false);
    expect((await x402.post(v2)).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE, PRICE]);
    await x402.queues.addStored(call?.data as JobCall, call?.data);
  },
);

describe("a facilitator that does not verify", () => {
  const verify = { on: "verify" } as const;
  const away: Record<string, FaultOrder> = {
    "not at all": { ...verify, kind: "drop" },
    "with 500": { ...verify, kind: "status", status: 500 },
    "with 429": { ...verify, kind: "status", status: 429, retryAfterSecs: 7 },
    "with something that is not JSON": { ...verify, kind: "not_json" },
    "with a redirect": { ...verify, kind: "redirect" },
    "with an answer above the size limit": { ...verify, kind: "huge" },
  };
  test.each(sample(Object.entries(away)))(
    "if the facilitator answers a verification %s, the payment is refused with 503, and accepted afterwards",
    async (_how, fault) => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault(fault);
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
      expect(Number(answer.headers["retry-after"])).toBe(
        fault.kind === "status" && fault.status === 429 ? 7 : 2,
      );
      expect(answer.headers["payment-required"]).toBeUndefined();
      expect(answer.json()["status_url"]).toBeUndefined();
      expect((await fixture.asked()).settle).toBe(0);
      await fixture.devnet.control.clearFaults();
      expect((await x402.post(headers)).status).toBe(202);
    },
  );
});

onlyInLongRun(() => {
  test("until a facilitator is reached for the first time, 402s are sent and payments are 503; once it is reached, it is used", async () => {
    await fixture.devnet.control.fault({ on: "supported", kind: "status", status: 503 });
    const x402 = await fixture.gateway({ early: true });
    await eventually("it takes calls", () => x402.gateway.readiness().ready);
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
    await fixture.devnet.control.clearFaults();
    await eventually("it is taken", async () => (await x402.post(headers)).status === 202);
  });

  test("while a chain's node has never answered, 402s are sent and payments are 503, so that no payer is charged", async () => {
    const x402 = await fixture.gateway({ token: { rpc_url: "http://127.0.0.1:1/canary-key" }, early: true });
    await eventually("it takes calls", () => x402.gateway.readiness().ready);
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
    expect((await fixture.asked()).settle).toBe(0);
    expect(answer.text + x402.log.text()).not.toContain("canary-key");
  });
});

const WRONG_DOMAINS = [
  ["pay", { eip3009_name: "USD Coin" }],
  ["payV1", { eip3009_name: "USD Coin" }],
  ["pay", { eip3009_version: "1" }],
  ["payV1", { eip3009_version: "1" }],
] as const;

test.each(sample(WRONG_DOMAINS))(
  "a token with a wrong EIP-712 domain is refused with 503, because the operator is at fault, and not with 402 (%s, %o)",
  async (pay, token) => {
    // With an rpc_url, the gateway would read the token's contract and would not offer the token.
    const unwatched = { ...token, rpc_url: undefined } as unknown as TomlTable;
    const x402 = await fixture.gateway({ token: unwatched, x402: { trust_facilitator: true } });
    const answer = await x402.post(await x402[pay]({ payer: fixture.payer }));
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
    expect(answer.json()["detail"]).toContain("operator");
    const faulty = x402.log.events.find(({ event }) => event === "offer.invalid");
    expect(faulty?.fields).toMatchObject({ symbol: "USDC", asset: fixture.devnet.token });
    expect((await fixture.asked()).settle).toBe(0);
  },
);

test("while a registry cannot check a caller, payments are 503, uncharged, and its URL stays secret", async () => {
  const registry = { ...fixture.devnet, rpcUrl: "http://127.0.0.1:1/canary-key" };
  const x402 = await fixture.gateway(restrictedJobs(registry));
  const challenge = await x402.post({}, { path: BY_PAYER });
  const answer = await x402.post(await signOffer(challenge, { payer: fixture.payer }), { path: BY_PAYER });
  expect([answer.status, answer.json()["code"]]).toEqual([503, "caller.check_unavailable"]);
  expect(answer.text + x402.log.text()).not.toContain("canary-key");
  expect([await fixture.asked(), await fixture.charged()]).toEqual([{ verify: 0, settle: 0 }, []]);
});

onlyInLongRun(() => {
  test("while no token has a rate, an older offer is paid at its price, and a version 1 payment is 503", async () => {
    const before = await fixture.gateway();
    const [v2, v1] = [
      await before.pay({ payer: fixture.payer }),
      await before.payV1({ payer: fixture.payer }),
    ];
    const after = await fixture.gateway({ token: rateless });
    for (const headers of [v1, { "PAYMENT-SIGNATURE": "AAAA" }]) {
      const refused = await after.post(headers);
      expect([refused.status, refused.json()["code"]]).toEqual([503, "price.unavailable"]);
      expect(refused.headers["retry-after"]).toBeDefined();
      expect(refused.headers["payment-required"]).toBeUndefined();
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect((await after.post(v2)).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

test("while Redis cannot keep the promise of a 202, a payment is refused with 503, and accepted afterwards", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
  await eventually("it is seen", () => !x402.gateway.readiness().ready);
  const answer = await x402.post(headers);
  await redis.client.config("SET", "maxmemory-policy", "noeviction");
  expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.not_durable"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  await eventually("it is taken", async () => (await x402.post(headers)).status === 202);
});

onlyInLongRun(() => {
  test("before Redis was reached for the first time, a payment is refused with 503", async () => {
    const well = await fixture.gateway();
    const headers = await well.pay({ payer: fixture.payer });
    const x402 = await fixture.gateway({
      redisUrl: "redis://127.0.0.1:1",
      directUrl: redis.url,
      early: true,
    });
    const [unread, read] = [await x402.post({ "PAYMENT-SIGNATURE": "AAAA" }), await x402.post(headers)];
    expect([unread.status, unread.json()["code"]]).toEqual([503, "service.starting"]);
    expect([read.status, read.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

test("a gateway that was stopped refuses a new payment with 503, and answers a known one", async () => {
  const x402 = await fixture.gateway();
  const [known, fresh] = [await x402.pay({ payer: fixture.payer }), await x402.pay({ payer: fixture.payer })];
  expect((await x402.post(known)).status).toBe(202);
  await fixture.devnet.control.clearRequests();
  x402.gateway.stop();
  const answer = await x402.post(fresh);
  expect([answer.status, answer.json()["code"]]).toEqual([503, "service.draining"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect((await x402.post(known)).status).toBe(202);
});

test("a payment whose outcome is unknown or in review is 503, and the answer says where to follow it", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  const open = await x402.post(headers);
  const id = idIn(open);
  await x402.journal.markForReview(id, "a contradiction");
  const inReview = await x402.post(headers);
  for (const [answer, code] of [
    [open, "payment.outcome_unknown"],
    [inReview, "payment.in_review"],
  ] as const) {
    expect([answer.status, answer.json()["code"]]).toEqual([503, code]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.headers.location).toBe(`http://pay.test/x402/calls/${id}`);
    expect(answer.json()["status_url"]).toBe(answer.headers.location);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }
});
