import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { PUBLIC_URL, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("who has the token of the first 202 gets what the runner answered, with its status and type, also by a link and by HEAD", async () => {
  const x402 = await fixture.gateway();
  const body = Buffer.from([0, 1, 2, 255]);
  const bought = await calls.ended(x402, async () => ({ status: 201, contentType: "image/x", body }));
  expect(bought.answer.json()).toMatchObject({
    result_token: expect.stringMatching(/^rt_[\w-]{43}$/),
    result_url: `${PUBLIC_URL}/x402/calls/${bought.id}/result`,
  });

  const result = await bought.ask();
  expect([result.status, result.headers["content-type"], result.body]).toEqual([201, "image/x", body]);
  expect(result.headers).toMatchObject({ "access-control-allow-origin": "*", "cache-control": "no-store" });

  const link = `/x402/calls/${bought.id}/result?token=${bought.token}`;
  expect((await send(x402.address, { method: "GET", path: link })).body).toEqual(body);
  const head = await bought.ask("/result", { method: "HEAD" });
  expect([head.status, head.headers["content-length"], head.body.length]).toEqual([201, "4", 0]);
});

test("with the token a call's status also tells since when, how many attempts have ended, and why it failed", async () => {
  const x402 = await fixture.gateway();
  const bought = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
  expect((await bought.ask("")).json()).toEqual({
    call_id: bought.id,
    state: "injected",
    accepted_at: expect.any(Number),
    changed_at: expect.any(Number),
    attempts: 1,
  });
});

test("tokens are made by the first secret of results, and those of its other secrets and of the quote secret stay good", async () => {
  const [old, rotated] = ["the old secret of these tests", "the new secret of these tests"];
  const replicas = await Promise.all([
    fixture.gateway(),
    fixture.gateway({ resultSecrets: [old] }),
    fixture.gateway({ resultSecrets: [rotated, old] }),
  ]);
  const [quoting, before, after] = replicas;
  const bought = await calls.buy(quoting, async () => ({ status: 200, body: "done" }));
  const again = (gateway: typeof before, token: string) =>
    gateway.post({ ...bought.headers, Authorization: `Bearer ${token}` });
  const ofOld = String((await again(before, bought.token)).json()["result_token"]);
  const ofNew = String((await again(after, ofOld)).json()["result_token"]);
  expect(new Set([bought.token, ofOld, ofNew]).size).toBe(3);
  for (const token of [bought.token, ofOld, ofNew]) {
    const answer = await send(after.address, {
      method: "GET",
      path: `/x402/calls/${bought.id}/result?token=${token}`,
    });
    expect(answer.status).not.toBe(402);
  }
  const path = `/x402/calls/${bought.id}/result?token=${ofNew}`;
  expect((await send(before.address, { method: "GET", path })).status).toBe(402);
});
