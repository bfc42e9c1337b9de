import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { PRICE, useX402 } from "../../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../../support/long-run.ts";
import { STEPS, type Step } from "../../redis-steps.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

test("a large paid call is claimed and queued over one connection, and its payment is read over another one", async () => {
  const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
  const over: Partial<Record<keyof typeof STEPS, number>> = {};
  proxy.onCommand = (words, connection) => {
    for (const [name, isStep] of Object.entries(STEPS)) {
      if (isStep(words)) over[name as keyof typeof STEPS] = connection;
    }
    return undefined;
  };
  const body = Buffer.alloc(400 * 1024, "x");
  const header = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(header, { body })).status).toBe(202);
  expect((await x402.waiting()).map(({ bytes }) => bytes)).toEqual([body.length]);
  const { find, claim, settled } = over;
  expect(claim).toBe(settled);
  expect(claim).not.toBe(find);
});

/** A large body, whose claim may take four seconds longer than a small one's. */
const LARGE = Buffer.alloc(6 * 2 ** 20, "x");

/**
 * Holds Redis' reply to this step until the gateway has looked ten times for due payments. `seen` counts the step. `tenRounds` resolves
 * after ten more rounds.
 */
function heldForTenRounds(step: Step): { seen: () => number; tenRounds: () => Promise<unknown> } {
  let seen = 0;
  let rounds = 0;
  const tenRounds = () => {
    const begun = rounds;
    return eventually("ten rounds", () => rounds > begun + 10);
  };
  proxy.onCommand = (words) => {
    if (words[3] === keys.paymentsDue) rounds += 1;
    if (!step(words)) return undefined;
    seen += 1;
    return seen === 1 ? { kind: "late-reply", until: tenRounds() } : undefined;
  };
  return { seen: () => seen, tenRounds };
}

const largeGateway = () =>
  fixture.gateway({
    redisUrl: proxy.url,
    directUrl: fixture.redis.url,
    x402: { body_limit_bytes: LARGE.length },
  });

onlyInLongRun(() => {
  test("a payment whose large call is claimed slowly is not settled by a reconciler before its request settles it", async () => {
    const x402 = await largeGateway();
    const header = await x402.pay({ payer: fixture.payer });
    const claims = heldForTenRounds(STEPS.claim);
    const answered = x402.post(header, { body: LARGE });
    const id = await eventually(
      "it is claimed",
      async () => claims.seen() > 0 && (await x402.redis.zrange(keys.payments, "0", "-1"))[0],
    );
    // By this time, a small call would be checked and settled again.
    x402.skip(4500);
    await x402.redis.zadd(keys.paymentsDue, 0, String(id));
    expect((await answered).status).toBe(202);
    expect((await fixture.asked()).settle).toBe(1);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});
