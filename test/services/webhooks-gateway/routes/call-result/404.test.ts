import { expect, test } from "vitest";
import { useWebhooks } from "../../../../fixtures/webhooks.ts";
import { ask, deliver, NOBODYS, startAskable, tokenOf } from "../called.ts";

const webhooks = useWebhooks();

test("the result of a webhook that waits is 404, and the answer says when to ask again", async () => {
  const gateway = await startAskable(webhooks);
  const { call_id: id, result_token: token } = (await deliver(gateway)).json();
  const answer = await ask(gateway, id, { token });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "result.pending"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
});

test("the result of a webhook of which nothing is known is 404, and says that it may be known later", async () => {
  const gateway = await startAskable(webhooks);
  const answer = await ask(gateway, NOBODYS, { token: tokenOf(NOBODYS) });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  expect(answer.json()["detail"]).toContain("without a delivery id");
});
