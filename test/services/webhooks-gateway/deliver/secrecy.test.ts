import { expect, test } from "vitest";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { BODY, ENDPOINTS, SECRET, sign, utf8 } from "./credentials.ts";

const webhooks = useWebhooks();

test("no credential reaches the queue or the log, whether it is accepted or refused", async () => {
  const gateway = await webhooks.start({ endpoints: ENDPOINTS });
  const good = sign(BODY);
  const sent: [string, string[], number][] = [
    ["/bearer", ["Authorization", utf8(`Bearer ${SECRET}`), "Cookie", "session=canary"], 202],
    ["/hmac", ["X-Signature-256", good], 202],
    ["/key", ["X-API-Key", "wrong-canary-key"], 401],
    ["/hmac", ["X-Signature-256", sign("canary")], 401],
  ];
  for (const [path, headers, status] of sent) {
    expect((await send(gateway.address, { path, headers, body: BODY })).status).toBe(status);
  }
  const stored = JSON.stringify(await webhooks.waiting());
  for (const trace of [SECRET, utf8(SECRET), "canary", good, sign("canary"), "uthorization"]) {
    expect(stored).not.toContain(trace);
    expect(gateway.log.text()).not.toContain(trace);
  }
});
