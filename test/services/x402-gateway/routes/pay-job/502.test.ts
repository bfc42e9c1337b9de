import { expect, test } from "vitest";
import { Refused } from "../../../../../services/producer/producer.ts";
import { useFakeRunner } from "../../../../fixtures/fake-runner.ts";
import { useProducer } from "../../../../fixtures/producer.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { settlementIn, usePreferWait, WAIT } from "./prefer-wait.ts";

const fixture = useX402();
const producers = useProducer({ redis: fixture.redis });
const waits = usePreferWait(fixture);
const runner = useFakeRunner();

test("a client that waits for a call which fails for good is told why, and that it was paid", async () => {
  const x402 = await fixture.gateway();
  const problem = { title: "Out of paper", detail: "The printer has none" };
  await waits.inject(async () => {
    throw new Refused("the runner's own reason", { problem });
  });
  const answer = await x402.post({ ...(await waits.payment(x402)), ...WAIT });
  expect([answer.status, answer.headers["content-type"]]).toEqual([502, "application/problem+json"]);
  expect(answer.json()).toMatchObject({
    code: "result.call_failed",
    failure: { code: "runner.refused", ...problem },
  });
  expect(settlementIn(answer)).toMatchObject({ success: true });
  expect(answer.headers["preference-applied"]).toBe("wait=30");
});

test.each([402, 401, 409])(
  "a client that waits gets no %i that the runner has answered, but a 502",
  async (status) => {
    const x402 = await fixture.gateway();
    const asked = { "payment-required": "e30=", "content-type": "application/problem+json" };
    runner.answer = () => ({ status, headers: asked, body: '{"title":"Pay me","accepts":[]}' });
    producers.start({ runnerUrl: runner.url, origins: ["x402"], attempts: 1 });
    const answer = await x402.post({ ...(await waits.payment(x402)), ...WAIT });
    expect(answer.status).toBe(502);
    expect(answer.headers).not.toHaveProperty("payment-required");
    expect(settlementIn(answer)).toMatchObject({ success: true });
  },
);
