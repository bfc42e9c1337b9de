import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../fixtures/bought-call.ts";
import { useWebhooks } from "../../../fixtures/webhooks.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { ask, NOBODYS, RESULT_SECRET, startAskable, tokenOf } from "./called.ts";

const x402 = useX402();
const webhooks = useWebhooks({ redis: x402.redis });
const calls = useBoughtCalls(x402);

const BELOW = ["", "/result", "/events"];

test("a paid call that has ended is 404 at the webhooks gateway too, and its result stays at the payment gateway", async () => {
  const gateway = await startAskable(webhooks);
  const bought = await x402.gateway({ resultSecrets: [RESULT_SECRET] });
  const { id, token, ...call } = await calls.ended(bought, async () => ({ status: 200, body: "done" }));
  expect((await call.get()).text).toBe("done");
  for (const below of BELOW) {
    const answer = await ask(gateway, id, { below, token });
    expect([below, answer.status, answer.text.includes("done")]).toEqual([below, 404, false]);
  }
});

onlyInLongRun(() => {
  test("a waiting paid call is 404 at a webhooks gateway on the same Redis, even with its token", async () => {
    const gateway = await startAskable(webhooks);
    const { id, token } = await calls.buy(await x402.gateway({ resultSecrets: [RESULT_SECRET] }));
    for (const below of BELOW) {
      const answer = await ask(gateway, id, { below, token });
      expect([below, answer.status, answer.json()["code"]]).toEqual([below, 404, "request.not_found"]);
    }
  });

  test("without its token, a paid call cannot be distinguished from an unknown call at a webhooks gateway", async () => {
    const gateway = await startAskable(webhooks);
    const { id } = await calls.buy(await x402.gateway({ resultSecrets: [RESULT_SECRET] }));
    const ofOther = tokenOf(`c_${"1".repeat(32)}`);
    for (const below of BELOW)
      for (const token of [undefined, ofOther]) {
        const [paid, nobodys] = await Promise.all(
          [id, NOBODYS].map((each) => ask(gateway, each, { below, token })),
        );
        const told = (answer: typeof paid) => answer && [answer.status, answer.text];
        expect([below, told(paid)]).toEqual([below, told(nobodys)]);
      }
  });
});
