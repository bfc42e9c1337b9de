import { expect, test } from "vitest";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { readStream } from "../../../../support/event-source.ts";
import { deliver, eventsOf, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

test("a client that was told the end of a webhook, and comes again with its id, gets 204", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  await inject(async () => ({ status: 200, body: "done" }));
  const proof = { token: String(token) };
  const first = await readStream(eventsOf(gateway, id), proof);
  await first.ended;
  const lastEventId = first.events.at(-1)?.id ?? "";
  expect((await readStream(eventsOf(gateway, id), { ...proof, lastEventId })).status).toBe(204);
});
