import { expect, test } from "vitest";
import { Refused } from "../../../../../services/producer/producer.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

test("the result of a webhook whose call failed for good is 502 with why, which its status tells too, but only with the token", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  const problem = { title: "Out of paper" };
  await inject(async () => {
    throw new Refused("the runner's own reason", { problem });
  });
  await eventually("it has failed", async () => (await ask(gateway, id, { token })).status === 502);
  const failure = { code: "runner.refused", ...problem };
  expect((await ask(gateway, id, { token })).json()).toMatchObject({ code: "result.call_failed", failure });
  const status = { call_id: id, state: "failed" };
  const proven = (await ask(gateway, id, { below: "", token })).json();
  expect(proven).toEqual({ ...status, changed_at: expect.any(Number), attempts: 1, failure });
  expect((await ask(gateway, id, { below: "" })).json()).toEqual(status);
});
