import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { shortId } from "../../event-line.ts";
import type { PaidScene } from "../../scene.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { ECHO_UNITS } from "./terms.ts";

/** A client of version 1 reads nothing but the body of the 402. */
export const versionOne: PaidScene = {
  title: "A client of version 1 buys one too",
  async play(demo, shop) {
    const { stage, runner } = demo;
    const buyer = shop.buyer("version 1");
    const order = shop.order(DEV_JOBS.echo, "paid in version 1");
    const payment = await buyer.signV1(order, await buyer.ask(order));
    const reply = await buyer.send(payment);
    const answer = JSON.parse(reply?.text ?? "{}");
    stage.check(
      `X-PAYMENT is answered 202: call ${shortId(payment.call.callId)}`,
      [reply?.status, answer.call_id],
      [202, payment.call.callId],
    );
    const receipt = Buffer.from(String(reply?.headers["x-payment-response"]), "base64").toString();
    const charges = await shop.chain.charges(buyer.address);
    stage.check(
      `X-PAYMENT-RESPONSE names the transaction that the chain has: ${answer.transaction}`,
      charges.map(({ transaction }) => transaction),
      [JSON.parse(receipt).transaction],
    );
    await showOneChargeOneJob(demo, shop, { buyer, call: payment.call, units: ECHO_UNITS });
    const { text } = await runner.askAgain(payment.call);
    stage.check(`the result at the runner: echo answered "${text}"`, text, order.body);
  },
};
