import { expect, test } from "vitest";
import type { Inject } from "../../../../services/producer/producer.ts";
import { AppError } from "../../../../shared/errors/app-error.ts";
import { useInjecting } from "../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

const ENDPOINT = {
  ...{ path: "/hooks/command", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id" },
  ...{ respond: "result", wait_secs: 60 },
};

test("where the sender waits for the result, a call that fails for good is answered 502, with why: now, and when it is delivered again", async () => {
  const run: Inject = async () => {
    throw new AppError("runner.refused", { reason: "the runner answered 402" });
  };
  await inject(run);
  const { address } = await webhooks.start({ endpoints: [ENDPOINT] });
  for (let i = 0; i < 2; i++) {
    const answer = await send(address, {
      path: ENDPOINT.path,
      headers: { "X-Delivery-Id": "delivery-1" },
      body: "hello",
    });
    expect([answer.status, answer.headers["content-type"]]).toEqual([502, "application/problem+json"]);
    expect(answer.json()).toMatchObject({ code: "result.call_failed", failure: { code: "runner.refused" } });
  }
});
