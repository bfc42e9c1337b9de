import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

test("a webhook's result that was kept and is no more is 410", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  await inject(async () => ({ status: 200, body: "done" }));
  await eventually("it has ended", async () => (await ask(gateway, id, { token })).status === 200);
  await webhooks.redis.client.del(keys.result(String(id)));
  const answer = await ask(gateway, id, { token });
  expect([answer.status, answer.json()["code"]]).toEqual([410, "result.gone"]);
});
