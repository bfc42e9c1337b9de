import { expect, test } from "vitest";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const proxy = useRedisProxy(webhooks.redis);

test("a stream of a webhook is 503 while Redis cannot be read", async () => {
  const gateway = await startAskable(webhooks, { redisUrl: proxy.url });
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  proxy.onCommand = (words) =>
    words.some((word) => word.endsWith(`:call:${String(id)}`)) ? { kind: "lose-command" } : undefined;
  const answer = await ask(gateway, id, { below: "/events", token });
  expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
  expect(answer.headers["retry-after"]).toBeDefined();
});
