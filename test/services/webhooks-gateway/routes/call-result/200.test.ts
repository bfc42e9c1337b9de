import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { send } from "../../../../support/http.ts";
import { ask, deliver, FORGETTING, KEEPING, NAMED, startAskable } from "../called.ts";

const webhooks = useWebhooks();
const inject = useInjecting(webhooks.redis, "webhook");

test.each([KEEPING, NAMED])(
  "the sender of a webhook at %s gets what the runner answered with the token of its 202, also by the link in it",
  async (path) => {
    const gateway = await startAskable(webhooks, { mountPath: "/mounted" });
    const accepted = (await deliver(gateway, path)).json<Record<string, string>>();
    const { call_id: id, result_token: token, result_url: url } = accepted;
    expect([token, url]).toEqual([
      expect.stringMatching(/^rt_[\w-]{43}$/),
      `/mounted/webhooks/calls/${id}/result`,
    ]);
    await inject(async () => ({ status: 201, contentType: "text/x", body: "done" }));
    await eventually("it has ended", async () => (await ask(gateway, id, { token })).status === 201);
    const result = await ask(gateway, id, { token });
    expect([result.headers["content-type"], result.text]).toEqual(["text/x", "done"]);
    const link = `/webhooks/calls/${id}/result?token=${token}`;
    expect((await send(gateway.address, { method: "GET", path: link })).text).toBe("done");
    const head = await ask(gateway, id, { token, method: "HEAD" });
    expect([head.status, head.headers["content-length"], head.text]).toEqual([201, "4", ""]);
  },
);

test("a repeated delivery gets the token again, and a delivery whose result is not kept gets none", async () => {
  const gateway = await startAskable(webhooks);
  const [first, repeat] = [await deliver(gateway), await deliver(gateway)];
  expect(repeat.headers["idempotent-replayed"]).toBe("true");
  expect(repeat.json()).toEqual(first.json());
  expect(Object.keys((await deliver(gateway, FORGETTING)).json())).toEqual(["status", "job_id", "call_id"]);
});
