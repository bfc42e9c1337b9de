import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { type Answer, send } from "../../../../support/http.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);
const calls = useBoughtCalls(fixture);

test("without the call's own token a result is 402, alike for calls that are there and that are not, before Redis is asked", async () => {
  const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
  const bought = await calls.buy(x402);
  const other = await x402.post(await x402.pay({ payer: await newPayer(fixture.devnet) }));
  const ofOther = String(other.json()["result_token"]);
  expect(ofOther).toMatch(/^rt_/);

  const touched: string[] = [];
  proxy.onCommand = (words) => {
    // The reconciler looks at bought calls by itself, through the list of payments.
    const isAsked = words.some((word) => word.includes(":call:c_")) && !words.includes(keys.payments);
    if (isAsked) touched.push(words.join(" "));
    return undefined;
  };
  const wrong = `rt_${"A".repeat(43)}`;
  const nobodys = `c_${"0".repeat(32)}`;
  const asks = [bought.id, nobodys].flatMap((id) => [
    { path: `/x402/calls/${id}/result`, headers: {} },
    { path: `/x402/calls/${id}/result?token=${wrong}`, headers: {} },
    { path: `/x402/calls/${id}/result?token=${ofOther}&token=${bought.token}`, headers: {} },
    { path: `/x402/calls/${id}/result`, headers: { Authorization: `Bearer ${ofOther}` } },
    { path: `/x402/calls/${id}/result`, headers: { Authorization: `Basic ${bought.token}` } },
    { path: `/x402/calls/${id}/result`, headers: bought.headers },
  ]);
  const answers = await Promise.all(asks.map((ask) => send(x402.address, { method: "GET", ...ask })));
  const told = answers.map(comparable);
  expect(told[0]?.status).toBe(402);
  expect(answers[0]?.json()).toMatchObject({ code: "result.sign_in_required", x402Version: 2, accepts: [] });
  for (const each of told) expect(each).toEqual(told[0]);
  expect(touched).toEqual([]);
});

/** Without the call's id, and what is fresh in each answer. */
function comparable({ status, headers, text }: Answer) {
  const { date, "payment-required": required, ...rest } = headers;
  const plain = text
    .replace(/c_[0-9a-f]{32}/g, "ID")
    .replace(/"(nonce|issuedAt|expirationTime)":"[^"]+"/g, "");
  expect(JSON.parse(Buffer.from(String(required), "base64").toString())).toMatchObject({ x402Version: 2 });
  return { status, headers: rest, text: plain };
}

test("a token under a secret that was taken out of the configuration is 402", async () => {
  const before = await fixture.gateway({ resultSecrets: ["a secret that leaked, so it was removed"] });
  const bought = await calls.buy(before);
  const after = await fixture.gateway({ resultSecrets: ["another secret of the same results"] });
  const path = `/x402/calls/${bought.id}/result?token=${bought.token}`;
  expect((await send(before.address, { method: "GET", path })).status).toBe(404);
  expect((await send(after.address, { method: "GET", path })).status).toBe(402);
});
