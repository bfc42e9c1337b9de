import { expect, test } from "vitest";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, NOBODYS, startAskable } from "../called.ts";

const webhooks = useWebhooks();

test("a stream of a webhook that nobody knows is 404, and so is each where nobody may watch", async () => {
  const gateway = await startAskable(webhooks);
  const answer = await ask(gateway, NOBODYS, { below: "/events" });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  const without = await startAskable(webhooks, { streams: { streamsMax: 0, perCallMax: 1 } });
  expect((await ask(without, NOBODYS, { below: "/events" })).status).toBe(404);
});
