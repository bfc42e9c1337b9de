import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { openRaw, sendRaw } from "../../../support/http.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({
    endpoints: [{ path: "/any", job_id: 1, auth: "none" }],
    webhooks: { request_timeout_secs: 0.3 },
  });
});

test("a webhook whose headers never end is refused with 408", async () => {
  const raw = await sendRaw(gateway.address, "POST /any HTTP/1.1\r\nHost: x\r\n");
  expect(raw).toMatch(/^HTTP\/1\.1 408/);
  expect(raw).toContain('"code":"request.timed_out"');
});

test("a webhook whose body never ends is refused with 408 and not queued", async () => {
  const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
  expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 408/);
  expect(await webhooks.waiting()).toEqual([]);
});

test("the rest of a body that comes after its 408 is not accepted, and nothing is queued", async () => {
  const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabcde";
  const sender = openRaw(gateway.address, head);
  await eventually("it is told", () => sender.received().includes("408"));
  await sender.sendUntilReset("fghij");
  expect(gateway.log.events.at(-1)).toMatchObject({
    event: "webhook.refused",
    fields: { code: "request.timed_out", path: "/any" },
  });
  expect(await webhooks.waiting()).toEqual([]);
  expect(sender.received().match(/HTTP\/1\.1/g)).toHaveLength(1);
});
