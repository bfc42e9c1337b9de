import { expect, test } from "vitest";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, NOBODYS, startAskable } from "../called.ts";

const webhooks = useWebhooks();

test("POST to a webhook's events is 405, and allows GET and HEAD", async () => {
  const answer = await ask(await startAskable(webhooks), NOBODYS, { below: "/events", method: "POST" });
  expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD"]);
});
