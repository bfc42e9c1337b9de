import { expect, test } from "vitest";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { readStream } from "../../../../support/event-source.ts";
import { ask, deliver, eventsOf, startAskable } from "../called.ts";

const webhooks = useWebhooks();

test("a stream of a webhook beyond what its call may have is 429", async () => {
  const gateway = await startAskable(webhooks, { streams: { streamsMax: 10, perCallMax: 1 } });
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  const first = await readStream(eventsOf(gateway, id), { token: String(token) });
  const second = await ask(gateway, id, { below: "/events", token });
  expect([first.status, second.status, second.json()["code"]]).toEqual([200, 429, "request.rate_limited"]);
  first.close();
});
