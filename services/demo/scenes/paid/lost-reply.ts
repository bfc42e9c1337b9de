import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { httpRequest, type Reply } from "../../http-request.ts";
import type { Demo, PaidScene } from "../../scene.ts";
import type { Buyer, Payment } from "../../shop/buyer.ts";
import type { Shop } from "../../shop/shop.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { ECHO_UNITS } from "./terms.ts";

/** Money has moved, and nobody said so: the answer may be neither 402 nor a second charge. */
export const lostReply: PaidScene = {
  title: "The facilitator's reply is lost after the transaction landed; the client is told to ask again",
  async play(demo, shop) {
    const { stage } = demo;
    const buyer = shop.buyer("lost reply");
    const order = shop.order(DEV_JOBS.echo, "the reply was lost");
    await shop.facilitator.loseNextReply();
    const payment = await buyer.sign(order, await buyer.ask(order));
    const reply = await buyer.send(payment);
    const charges = await shop.chain.charges(buyer.address);
    stage.check("the transaction is on the chain, and the facilitator's connection broke", charges.length, 1);
    const problem = JSON.parse(reply?.text ?? "{}");
    stage.check(
      `the client is answered 503 ${problem.code}, not 402: "${problem.detail}"`,
      [reply?.status, problem.code, reply?.headers["retry-after"]],
      [503, "payment.outcome_unknown", "2"],
    );
    await askAgain(demo, shop, { buyer, payment, statusUrl: problem.status_url });
    await showOneChargeOneJob(demo, shop, { buyer, call: payment.call, units: ECHO_UNITS });
  },
};

type Open = { buyer: Buyer; payment: Payment; statusUrl: string };

async function askAgain({ stage, world }: Demo, { gateway }: Shop, open: Open): Promise<void> {
  const { buyer, payment, statusUrl } = open;
  let reply: Reply | undefined;
  await eventually("the same payment is answered 202", async () => {
    reply = await buyer.send(payment);
    return reply?.status !== 503;
  });
  const answer = JSON.parse(reply?.text ?? "{}");
  stage.check(
    "the same payment, sent again, is answered 202",
    [reply?.status, answer.call_id],
    [202, payment.call.callId],
  );
  const [found] = await world.logs.x402.forEach("payment.reconciled", [payment.call.callId]);
  stage.check("the gateway had found the transaction on the chain", found?.["by"], "chain");
  if (found !== undefined) stage.log("x402", found);

  const { pathname } = new URL(statusUrl);
  let state: unknown;
  await eventually("its status_url says injected", async () => {
    const { text } = await httpRequest(gateway.address, { method: "GET", path: pathname });
    state = JSON.parse(text).state;
    return state === "injected";
  });
  stage.check(`its status_url says: ${state}`, state, "injected");
}
