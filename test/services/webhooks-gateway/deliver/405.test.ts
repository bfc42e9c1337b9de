import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
});

test.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])(
  "a %s request to an endpoint is refused with 405 and Allow: POST",
  async (method) => {
    const answer = await send(gateway.address, { method, path: "/a" });
    expect(answer.status).toBe(405);
    expect(answer.headers["allow"]).toBe("POST");
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { code: "request.method_not_allowed", reason: `${method}; this endpoint takes POST` },
    });
  },
);
