import { expect, test } from "vitest";
import { Refused } from "../../../../../services/producer/producer.ts";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("the result of a call that failed for good is 502 with what its runner said, as the call's status tells its payer, and nobody else", async () => {
  const x402 = await fixture.gateway();
  const problem = { title: "Out of paper", detail: "The printer has none" };
  const bought = await calls.ended(x402, async () => {
    throw new Refused("the runner's own reason", { problem });
  });
  const failure = { code: "runner.refused", ...problem };
  const answer = await bought.ask();
  expect(answer.status).toBe(502);
  expect(answer.json()).toMatchObject({ code: "result.call_failed", failure });
  expect((await bought.ask("")).json()).toMatchObject({ state: "failed", attempts: 1, failure });
  expect((await bought.ask("", { token: "" })).json()).toEqual({ call_id: bought.id, state: "failed" });
});
