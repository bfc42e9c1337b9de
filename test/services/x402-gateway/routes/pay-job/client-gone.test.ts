import { request } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { JOB_PATH, PRICE, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { STEPS, type Step } from "../../redis-steps.ts";

const redis = useOwnRedis();
const fixture = useX402({ redis });

/** Starts a request and closes the connection once `until` resolves. `whole` says whether the whole body is sent. */
async function hangUp(
  address: string,
  headers: Readonly<Record<string, string>>,
  { whole, until }: { whole: boolean; until: () => Promise<unknown> },
): Promise<void> {
  const [host, port] = address.split(":");
  const length = { "Content-Length": "5" };
  const sent = request({
    host,
    port,
    method: "POST",
    path: JOB_PATH,
    headers: { ...headers, ...length },
    agent: false,
  });
  sent.on("error", () => {});
  await new Promise<void>((flushed) => sent.write(whole ? "hello" : "hel", () => flushed()));
  if (whole) sent.end();
  await until();
  sent.destroy();
}

test.each(sample(["settle", "verify"] as const))(
  "a payment whose client goes away while the facilitator is asked to %s is one charge and one job",
  async (on) => {
    const x402 = await fixture.gateway();
    const header = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on, kind: "slow", delayMs: 500, times: 1 });
    const asked = () => eventually("the facilitator is asked", async () => (await fixture.asked())[on] === 1);
    await hangUp(x402.address, header, { whole: true, until: asked });
    await eventually("its call waits", async () => (await x402.waiting()).length === 1);
    const again = await x402.post(header);
    expect([again.status, again.json()["call_id"]]).toEqual([202, (await x402.waiting())[0]?.id]);
    expect(await fixture.charged()).toEqual([PRICE]);
  },
);

test("a payment whose client goes away before the body is whole is not charged, and can be sent again", async () => {
  const x402 = await fixture.gateway();
  const header = await x402.pay({ payer: fixture.payer });
  await hangUp(x402.address, header, { whole: false, until: async () => {} });
  await eventually("it is refused", () => x402.log.events.some(({ event }) => event === "payment.refused"));
  expect([await fixture.asked(), await fixture.charged()]).toEqual([{ verify: 0, settle: 0 }, []]);
  expect((await x402.post(header)).status).toBe(202);
});

describe("a client that goes away at a step of its request in Redis", () => {
  const proxy = useRedisProxy(redis);
  afterEach(() => process.kill(redis.server.pid, "SIGCONT"));

  /** Its reconciler never runs, so that it does not finish the payment before the request does. */
  const gateway = () => fixture.gateway({ redisUrl: proxy.url, directUrl: redis.url, roundMs: 600_000 });

  /** Resolves once Redis has received this step `times` times. `act` runs before Redis gets the last of them. */
  function onStep(step: Step, { times = 1, act = () => {} }: { times?: number; act?: () => void } = {}) {
    let left = times;
    proxy.onCommand = (words) => {
      if (step(words) && --left === 0) act();
      return undefined;
    };
    return () => eventually("the step is asked for", () => left <= 0);
  }

  /** Stops Redis at the step until the gateway has noticed that its client is gone. */
  async function hangUpAt(step: Step, x402: TestX402, header: Record<string, string>): Promise<void> {
    const until = onStep(step, { act: () => process.kill(redis.server.pid, "SIGSTOP") });
    await hangUp(x402.address, header, { whole: true, until });
    await send(x402.address, { method: "GET", path: "/x402/health" }); // the gateway answers this after it has noticed the closed connection
    process.kill(redis.server.pid, "SIGCONT");
  }

  test.each(sample(["claim", "settled"] as const))(
    "a request whose client goes away at the step %s continues, and is one charge and one job",
    async (step) => {
      const x402 = await gateway();
      const header = await x402.pay({ payer: fixture.payer });
      await hangUpAt(STEPS[step], x402, header);
      await eventually("it is done", () => x402.log.text().includes("payment.accepted"));
      expect(x402.log.text(), "no reconciler had to finish it").not.toMatch(
        /payment\.(settled_again|reconciled)/,
      );
      const [call] = await x402.waiting();
      const again = await x402.post(header);
      expect([again.status, again.json()["call_id"]]).toEqual([202, call?.id]);
      expect([await fixture.charged(), await fixture.asked()]).toEqual([[PRICE], { verify: 1, settle: 1 }]);
    },
  );

  onlyInLongRun(() => {
    test("if the client of a waiting repeat goes away, the first request still gets its answer, and there is one charge", async () => {
      const [x402, replica] = [await fixture.gateway(), await gateway()];
      const header = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 800, times: 1 });
      const first = x402.post(header);
      await eventually("it is being settled", async () => (await fixture.asked()).settle === 1);
      await hangUp(replica.address, header, { whole: true, until: onStep(STEPS.find, { times: 3 }) });
      const answer = await first;
      expect([answer.status, answer.headers["idempotent-replayed"]]).toEqual([202, undefined]);
      expect((await replica.post(header)).json()["call_id"]).toBe(answer.json()["call_id"]);
      expect([await fixture.charged(), await fixture.asked()]).toEqual([[PRICE], { verify: 1, settle: 1 }]);
    });
  });
});
