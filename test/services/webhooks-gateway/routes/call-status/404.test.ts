import { expect, test } from "vitest";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, KEEPING, startAskable } from "../called.ts";

const webhooks = useWebhooks();

test("a webhook without a delivery id is 404 while it waits, with a word on that, also with its token", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway, KEEPING)).json();
  for (const proof of [{}, { token }]) {
    const answer = await ask(gateway, id, { below: "", ...proof });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    expect(answer.json()["detail"]).toContain("without a delivery id");
  }
});

test("a path of no call is 404, as any path that no endpoint has", async () => {
  const gateway = await startAskable(webhooks);
  for (const id of ["c_0", `c_${"A".repeat(32)}`, ""]) expect((await ask(gateway, id)).status).toBe(404);
});
