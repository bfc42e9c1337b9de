import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const webhooks = useWebhooks();

test("an error that nobody foresaw is answered with 500, and only the log says which", async () => {
  let reads = Number.POSITIVE_INFINITY;
  const clock = () => {
    reads -= 1;
    if (reads === 0) throw new Error("the clock fell off the wall");
    return Date.now();
  };
  const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }], clock });
  // The second look at the clock is the request's own, unless the gateway's look at the queue comes between.
  const answer = await eventually("the request meets the error", async () => {
    reads = 2;
    const answer = await send(gateway.address, { path: "/a", body: "x" });
    return answer.status === 202 ? undefined : answer;
  });
  expect(answer.json()).toMatchObject({ status: 500, code: "internal.unexpected" });
  expect(answer.text).not.toContain("clock");
  expect(gateway.log.events.at(-1)).toMatchObject({
    event: "webhook.refused",
    fields: { path: "/a", reason: "the clock fell off the wall", stack: expect.stringContaining("500.test") },
  });
});
