import { expect, test } from "vitest";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const webhooks = useWebhooks();
const KEEPS = { secs: 3600, bytes_max: 100_000 };

test("a call stores the endpoint's keep_delivered, and without the setting its stored form has no additional bytes", async () => {
  const gateway = await webhooks.start({
    endpoints: [
      { path: "/keeps", job_id: 1, auth: "none", keep_delivered: KEEPS },
      { path: "/keeps-not", job_id: 1, auth: "none" },
    ],
  });
  const replay = { "X-WEBHOOK-REPLAY-OF": `c_${"0".repeat(32)}`, "X-WEBHOOK-PATH": "/keeps" };
  await send(gateway.address, { path: "/keeps-not", headers: replay, body: "a call" });
  const plain = await webhooks.onlyCall();
  expect(plain).not.toHaveProperty("keep_delivered");
  expect(plain.metadata).toMatchObject({ "X-WEBHOOK-PATH": "/keeps-not" });
  expect(plain.metadata).not.toHaveProperty("X-WEBHOOK-REPLAY-OF");
  await webhooks.redis.client.flushdb();
  await send(gateway.address, { path: "/keeps", body: "a call" });
  expect(await webhooks.onlyCall()).toMatchObject({ keep_delivered: KEEPS });
});
