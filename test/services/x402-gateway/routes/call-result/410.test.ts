import { expect, test } from "vitest";
import { createForget } from "../../../../../shared/calls/forget.ts";
import { silentLogger } from "../../../../../shared/log/logger.ts";
import { systemClock } from "../../../../../shared/time/clock.ts";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("a result that was kept and is no more is 410", async () => {
  const x402 = await fixture.gateway();
  const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
  expect((await bought.ask()).text).toBe("done");
  await fixture.redis.client.del(keys.result(bought.id));
  const answer = await bought.ask();
  expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
});

test("the result of a forgotten call is 410, and its payment is answered as before and buys nothing", async () => {
  const x402 = await fixture.gateway();
  const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
  const { partition } = fixture.redis;
  const operator = { partition, clock: systemClock, log: silentLogger, by: "a test" };
  expect(await createForget(operator)(bought.id, "the law")).toEqual({ kind: "done" });
  const answer = await bought.ask();
  expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
  expect((await bought.ask("")).json()).toMatchObject({ state: "injected", attempts: 1 });
  const repeat = await x402.post(bought.headers);
  expect([repeat.status, repeat.json()]).toMatchObject([202, { call_id: bought.id, status: "accepted" }]);
});
