import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { openRaw } from "../../../support/http.ts";

const webhooks = useWebhooks();

test("a webhook whose sender goes away before the body is whole is not queued", async () => {
  const gateway = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  const head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
  const sender = openRaw(gateway.address, head);
  await eventually("its body is read", () => sender.received().includes("100 Continue"));
  sender.socket.write("abc");
  sender.socket.destroy();
  const refused = await eventually("it is refused", () =>
    gateway.log.events.find(({ event }) => event.startsWith("webhook.")),
  );
  expect(refused).toMatchObject({
    event: "webhook.refused",
    fields: { path: "/a", code: "request.malformed" },
  });
  expect(await webhooks.waiting()).toEqual([]);
});
