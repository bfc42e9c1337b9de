import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { contentsOf } from "../../../../support/redis-content.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("wherever a client puts its token, it is in no log and nothing is kept of it, and no answer but to the payer says it", async () => {
  const x402 = await fixture.gateway();
  const { id, token, headers } = await calls.buy(x402);
  const secret = token.slice(3);
  const call = `/x402/calls/${id}`;
  const Authorization = `Bearer ${token}`;
  const asks = [
    { method: "GET", path: `${call}/result?token=${token}` },
    { method: "GET", path: `${call}/result`, headers: { Authorization } },
    { method: "GET", path: `${call}/result/${token}` },
    { method: "GET", path: `${call}/result&token=${token}` },
    { method: "GET", path: `/x402/calls/${token}` },
    { method: "POST", path: `${call}/result?token=${token}` },
    { method: "GET", path: `/x402?page=${token}` },
    { method: "GET", path: `/x402/jobs/1/7/${token}` },
    { method: "POST", path: `${JOB_PATH}?network=${token}` },
    { method: "POST", path: JOB_PATH, headers: { "PAYMENT-SIGNATURE": token } },
    { method: "POST", path: JOB_PATH, headers: { ...headers, Authorization }, body: "another body" },
    { method: "POST", path: `${JOB_PATH}/auth-dry-run?token=${token}`, headers: { Authorization } },
  ];
  for (const ask of asks) {
    const answer = await send(x402.address, ask);
    expect(answer.text + JSON.stringify(answer.headers), ask.path).not.toContain(secret);
  }
  // A repeat with the right token is told it, and it alone.
  expect((await x402.post({ ...headers, Authorization })).text).toContain(secret);

  const { client } = fixture.redis;
  const kept = JSON.stringify(await contentsOf(client, await client.keys("*")));
  expect(kept).toContain(id);
  expect(kept).not.toContain(secret);
  expect(x402.log.text()).not.toContain(secret);
});
