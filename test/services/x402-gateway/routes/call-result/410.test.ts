import { expect, test } from "vitest";
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
