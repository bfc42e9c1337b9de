import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { createResults } from "../../../../../shared/results/store.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

test("the state word of a webhook is for anybody who knows its id; since when, attempts and progress are for who has its token", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  const status = { call_id: id, state: "queued" };
  expect((await ask(gateway, id, { below: "" })).json()).toEqual(status);
  const proven = async () => (await ask(gateway, id, { below: "", token })).json();
  expect(await proven()).toEqual({ ...status, changed_at: expect.any(Number), attempts: 0 });

  await inject(async () => ({ status: 202 }));
  await eventually("it is injected", async () => (await proven())["state"] === "injected");
  await createResults(webhooks.redis.partition).tellProgress(String(id), { at: 5, json: '{"percent":40}' });
  expect(await proven()).toMatchObject({ attempts: 1, progress: { percent: 40 }, progress_at: 5 });
  expect((await ask(gateway, id, { below: "" })).json()).toEqual({ ...status, state: "injected" });
});
