import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import type { TomlTable } from "smol-toml";
import type { Hex } from "viem";
import { beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createMetrics } from "../../../shared/platform/metrics/metrics.ts";
import { registerRates } from "../../../shared/pricing/rates/rates.ts";
import { useRateSources } from "../../fixtures/rate-sources.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import {
  JOB_PATH,
  requiredIn,
  type TestX402,
  type TestX402Options,
  useX402,
  x402Table,
} from "../../fixtures/x402.ts";
import { codeOf } from "../../support/books.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { type PaymentChoice, signPayment, signPaymentV1 } from "../../support/sign-payment.ts";

const fixture = useX402();
const chain = useRateSources();
let feed: Hex;
let skewMs = 0;
const clock = () => Date.now() + skewMs;

beforeEach(async () => {
  skewMs = 0;
  feed = await chain.feed();
  await chain.write(feed);
  chain.proxy.calls = 0;
});

/** A refresh period that is longer than a test, so that the source is read only once. */
const seldom = { rateRefreshSecs: 400 };
const usd = (amount: number) => BigInt(amount) * 10n ** 8n;
const YEAR_SECS = 365 * 86_400;

/** A token whose rate comes from the feed. */
const live = (more: TomlTable = {}): TomlTable => ({
  rate_per_native_unit: { source: "chainlink", rpc_url: chain.proxy.url, feed, max_age_secs: YEAR_SECS },
  ...more,
});

/** A second token like this one on a chain without a node. Only the facilitator judges its payments. */
const unwatched = (token: TomlTable) => {
  const { rpc_url: _, ...its } = token;
  return { ...its, asset: `0x${"22".repeat(20)}`, symbol: "OTHER" };
};

/** Starts a gateway. By default, it reads the source ten times a second. */
const start = (more: Partial<TestX402Options> = {}) =>
  fixture.gateway({ token: live(), rateRefreshSecs: 0.1, clock, ...more });

async function amounts(x402: TestX402): Promise<string[] | string> {
  const answer = await x402.post();
  return answer.status === 402
    ? requiredIn(answer).accepts.map(({ amount }) => amount)
    : String(codeOf(answer));
}

const untilOffered = (x402: TestX402, amount: string) =>
  eventually(`it is offered at ${amount}`, async () => String(await amounts(x402)) === amount);

const priceOf = (x402: TestX402) => send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });

async function payV1(offer: PaymentRequirementsV1 | undefined, choice: PaymentChoice) {
  return { "X-PAYMENT": (await signPaymentV1(offer as PaymentRequirementsV1, choice)).header };
}

/** Makes the shared value in Redis older, and moves our clock by the same time. */
async function pass({ redis }: TestX402, ms: number): Promise<void> {
  for (const key of await redis.keys("{postern}:rate:*")) await redis.hincrby(key, "read_at", -ms);
  skewMs += ms;
}

test("offers follow the rate, and an earlier quote can still be paid at its price", async () => {
  const x402 = await start();
  await untilOffered(x402, "3200000");
  const before = await x402.ask();
  const paid = await signPayment(before.v2.accepts[0] as PaymentRequirements, {
    payer: fixture.payer,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 120),
  });
  await chain.write(feed, { answer: usd(3300) });
  await untilOffered(x402, "3300000");
  expect((await priceOf(x402)).json()["settlement_options"]).toEqual([
    expect.objectContaining({ amount: "3300000" }),
  ]);

  const answer = await x402.post({ "PAYMENT-SIGNATURE": paid.header });
  expect([answer.status, answer.json<{ receipt: { amount: string } }>().receipt.amount]).toEqual([
    202,
    "3200000",
  ]);
  expect(await fixture.charged()).toEqual([3_200_000n]);
  expect(x402.log.text()).not.toContain("canary");
});

test("only one of two gateways reads the source of a rate in a period, and the other uses its value", async () => {
  const [one, two] = await Promise.all([start(seldom), start(seldom)]);
  await untilOffered(one, "3200000");
  await untilOffered(two, "3200000");
  const three = await start(seldom);
  await untilOffered(three, "3200000");
  // latestRoundData and decimals, once.
  expect(chain.proxy.calls).toBe(2);
  const [state] = await Promise.all(
    (await one.redis.keys("{postern}:rate:*")).map((key) => one.redis.hgetall(key)),
  );
  expect(Object.keys(state ?? {}).sort()).toEqual(["due_at", "read_at", "value"]);
});

onlyInLongRun(() => {
  test("tokens whose rates have the same source share one read, each with its own decimals", async () => {
    const [token] = x402Table({ devnet: fixture.devnet })["accepted_tokens"] as [TomlTable];
    const other = { ...unwatched(token), ...live(), decimals: 18 };
    const accepted_tokens = [{ ...token, ...live() }, other];
    const x402 = await start({ x402: { accepted_tokens, trust_facilitator: true }, ...seldom });
    await untilOffered(x402, "3200000,3200000000000000000");
    expect(chain.proxy.calls).toBe(2);
  });
});

test("the last rate of an unreachable source counts until max_rate_age_secs and no longer; once the source is back, its rate counts again", async () => {
  const [one, two] = await Promise.all([start(), start()]);
  await untilOffered(one, "3200000");
  await untilOffered(two, "3200000");
  chain.proxy.answer = "failing";
  await eventually(
    "it is said",
    () => one.log.text().includes("rate.failed") || two.log.text().includes("rate.failed"),
  );
  await pass(one, 880_000);
  expect([await amounts(one), await amounts(two)]).toEqual([["3200000"], ["3200000"]]);
  const quoted = await one.ask();

  await pass(one, 30_000);
  for (const x402 of [one, two]) {
    const refused = await x402.post();
    expect([refused.status, codeOf(refused)]).toEqual([503, "price.unavailable"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(codeOf(await priceOf(x402))).toBe("price.unavailable");
    expect(x402.gateway.readiness()).toMatchObject({
      ready: true,
      checks: { rates: [{ symbol: "USDC", ok: false }] },
    });
  }
  const late = { payer: fixture.payer, validBefore: BigInt(Math.floor(clock() / 1000) + 120) };
  const v1 = await payV1(quoted.v1[0], late);
  const refused = await one.post(v1);
  expect([refused.status, codeOf(refused)]).toEqual([503, "price.unavailable"]);
  const v2 = await signPayment(quoted.v2.accepts[0] as PaymentRequirements, late);
  expect((await one.post({ "PAYMENT-SIGNATURE": v2.header })).status).toBe(202);
  await eventually("both say so", () => [one, two].every(({ log }) => log.text().includes("rate.stale")));
  const why = { reason: expect.stringContaining("status 500"), failed_at: expect.stringMatching(/^\d{4}-/) };
  for (const { gateway } of [one, two])
    expect(gateway.readiness().checks["rates"]).toMatchObject([{ symbol: "USDC", ok: false, ...why }]);

  await chain.write(feed, { answer: usd(3100) });
  chain.proxy.answer = "well";
  await untilOffered(one, "3100000");
  await untilOffered(two, "3100000");
  const available = () => one.log.events.filter(({ event }) => event === "rate.available");
  await eventually("it is said", () => available().length > 1);
  expect(available()).toHaveLength(2);
  expect(one.log.text() + two.log.text()).not.toContain("canary");
});

test("a rate outside the bounds is ignored, and the last valid one counts", async () => {
  const x402 = await start({ token: live({ min_rate: "3000", max_rate: "4000" }) });
  await untilOffered(x402, "3200000");
  await chain.write(feed, { answer: usd(1) });
  await eventually("it is refused", () => x402.log.text().includes("below min_rate"));
  expect(await amounts(x402)).toEqual(["3200000"]);
  expect(x402.log.events.filter(({ event }) => event === "rate.failed")).toHaveLength(1);
});

onlyInLongRun(() => {
  test("a rate in Redis outside the bounds is ignored, even if a process without these bounds wrote it", async () => {
    const token = live({ min_rate: "3000", max_rate: "4000" });
    const x402 = await start({ token });
    await untilOffered(x402, "3200000");
    chain.proxy.answer = "failing";
    const [key] = await x402.redis.keys("{postern}:rate:*");
    await x402.redis.hset(key!, "value", "1");
    const second = await start({ token });
    await eventually("it has looked", () => chain.proxy.calls > 6);
    expect(await amounts(second)).toBe("price.unavailable");
  });

  const proxy = useRedisProxy(fixture.redis);

  test("without Redis the last rate counts until it is too old, and no replica reads the source on its own", async () => {
    const x402 = await start({ redisUrl: proxy.url, directUrl: fixture.redis.url });
    await untilOffered(x402, "3200000");
    let lost = 0;
    proxy.onCommand = (words) => {
      if (!words.some((word) => word.startsWith("{postern}:rate:"))) return undefined;
      // Redis becomes unreachable at the first command of a poll. Within a read, the lease of 15 s would remain.
      const beginsPoll = words.length === 7;
      if (lost === 0 && !beginsPoll) return undefined;
      lost += 1;
      return { kind: "lose-command" };
    };
    await eventually("Redis is away", () => lost > 0);
    await chain.write(feed, { answer: usd(3300) });
    chain.proxy.calls = 0;
    skewMs = 880_000;
    expect(await amounts(x402)).toEqual(["3200000"]);
    skewMs = 910_000;
    expect(await amounts(x402)).toBe("price.unavailable");
    expect(x402.log.text()).not.toContain("rate.failed");
    const before = lost;
    await eventually("it was asked again", () => lost > before + 2);
    expect(chain.proxy.calls).toBe(0);
    proxy.onCommand = () => undefined;
    await untilOffered(x402, "3300000");
  });
});

describe("beside a token with a fixed rate", () => {
  const two = (): TomlTable => {
    const [token] = x402Table({ devnet: fixture.devnet })["accepted_tokens"] as [TomlTable];
    const other = { ...unwatched(token), rate_per_native_unit: "1" };
    return { accepted_tokens: [{ ...token, ...live() }, other], trust_facilitator: true };
  };

  test("a token without a rate is offered nowhere, and version 1 cannot pay with it", async () => {
    await chain.breakFeed(feed);
    const x402 = await start({ x402: two() });
    await eventually("it was read", () => x402.log.text().includes("No data present"));
    expect(await amounts(x402)).toEqual(["1000"]);
    const price = (await priceOf(x402)).json<{ settlement_options: { symbol: string }[] }>();
    expect(price.settlement_options.map(({ symbol }) => symbol)).toEqual(["OTHER"]);
    const requirements = {
      ...(await x402.ask()).v1[0]!,
      asset: fixture.devnet.token,
      maxAmountRequired: "3200000",
    };
    const paid = await payV1(requirements, {
      payer: fixture.payer,
      validBefore: BigInt(Math.floor(Date.now() / 1000) + 120),
    });
    const refused = await x402.post(paid);
    expect([refused.status, codeOf(refused)]).toEqual([402, "payment.not_offered"]);
  });

  onlyInLongRun(() => {
    test("metrics have each token's rate and age, and no rate of a token without one", async () => {
      const x402 = await start({ x402: two() });
      const metrics = createMetrics();
      registerRates(metrics, x402.gateway.rates);
      await eventually("it is offered", async () => (await amounts(x402)).length === 2);
      const { network, token } = fixture.devnet;
      const known = await metrics.text();
      const other = `network="${network}",asset="0x${"22".repeat(20)}",symbol="OTHER"`;
      expect(known).toContain(
        `postern_rate_value{network="${network}",asset="${token}",symbol="USDC"} 3200\n`,
      );
      expect(known).toContain(`postern_rate_value{${other}} 1\n`);
      expect(known).toContain(`postern_rate_age_seconds{${other}} 0\n`);
      chain.proxy.answer = "failing";
      await eventually("it fails", () => x402.log.text().includes("status 500"));
      await pass(x402, 1_000_000);
      const stale = await metrics.text();
      expect(stale).not.toMatch(/postern_rate_value\{[^}]*USDC/);
      expect(stale).toMatch(/postern_rate_age_seconds\{[^}]*USDC"\} 1\d\d\d/);
    });
  });
});

onlyInLongRun(() => {
  test("metrics and readiness distinguish two tokens of one symbol by their asset", async () => {
    const [token] = x402Table({ devnet: fixture.devnet })["accepted_tokens"] as [TomlTable];
    const [one, other] = [fixture.devnet.token, unwatched(token).asset];
    const x402 = await start({
      x402: {
        accepted_tokens: [
          { ...token, rate_per_native_unit: "1" },
          { ...unwatched(token), symbol: "USDC", rate_per_native_unit: "2" },
        ],
        trust_facilitator: true,
      },
    });
    expect(x402.gateway.readiness().checks["rates"]).toMatchObject([{ asset: one }, { asset: other }]);
    const metrics = createMetrics();
    registerRates(metrics, x402.gateway.rates);
    const values = (await metrics.text()).match(/^postern_rate_value\{.*$/gm);
    expect(values).toEqual([
      expect.stringMatching(`asset="${one}".* 1$`),
      expect.stringMatching(`asset="${other}".* 2$`),
    ]);
  });

  test("a rate at which the job would cost nothing is ignored", async () => {
    const [token] = x402Table({ devnet: fixture.devnet })["accepted_tokens"] as [TomlTable];
    const of = (more: TomlTable) => ({
      x402: { accepted_tokens: [{ ...unwatched(token), ...live(more) }], trust_facilitator: true },
    });
    const x402 = await start({ ...of({ decimals: 0 }), prices: { "7": "1000000000000" } });
    await untilOffered(x402, "1");
    const huge = await chain.feed(0);
    await chain.write(huge, { answer: 2n ** 255n - 1n });
    const rate = { source: "chainlink", rpc_url: chain.proxy.url, feed: huge, max_age_secs: YEAR_SECS };
    const other = await start(of({ rate_per_native_unit: rate, decimals: 36 }));
    await eventually("it was read", () => other.log.text().includes("rate.available"));
    expect(await amounts(other)).toBe("price.unavailable");
  });
});
