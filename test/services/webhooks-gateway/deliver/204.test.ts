import { expect, test } from "vitest";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const webhooks = useWebhooks();

test("a webhook whose sender wants 204 gets it without a body, once the call is on disk", async () => {
  const { address } = await webhooks.start({
    endpoints: [{ path: "/a", job_id: 1, auth: "none", answer: { status: 204 } }],
  });
  const answer = await send(address, { path: "/a", body: "x" });
  expect([answer.status, answer.text, answer.headers["content-length"]]).toEqual([204, "", undefined]);
  await webhooks.onlyCall();
});
