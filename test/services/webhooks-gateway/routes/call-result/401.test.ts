import { expect, test } from "vitest";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, NOBODYS, startAskable, tokenOf } from "../called.ts";

const webhooks = useWebhooks();
const proxy = useRedisProxy(webhooks.redis);

test("without the call's own token a webhook's result is 401, alike for calls that are there and that are not, before Redis is asked", async () => {
  const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
  const id = String((await deliver(gateway)).json()["call_id"]);
  const touched: string[] = [];
  proxy.onCommand = (words) => {
    if (words.some((word) => word.includes(":call:c_"))) touched.push(words.join(" "));
    return undefined;
  };
  const ofOther = tokenOf(`c_${"1".repeat(32)}`);
  const answers = await Promise.all(
    [id, NOBODYS].flatMap((each) => [ask(gateway, each), ask(gateway, each, { token: ofOther })]),
  );
  const told = answers.map(({ status, headers: { date, ...headers }, text }) => ({ status, headers, text }));
  expect(told[0]).toMatchObject({ status: 401, headers: { "www-authenticate": 'Bearer realm="postern"' } });
  expect(answers[0]?.json()["code"]).toBe("result.proof_required");
  for (const each of told) expect(each).toEqual(told[0]);
  expect(touched).toEqual([]);
});

test("a gateway without a secret of results takes no token for one", async () => {
  const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  expect((await ask(gateway, NOBODYS, { token: tokenOf(NOBODYS) })).status).toBe(401);
});
