import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { shortId } from "../../event-line.ts";
import { KECCAK256_OF_HELLO } from "../../known-answer.ts";
import type { PaidScene } from "../../scene.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { KECCAK256_UNITS } from "./terms.ts";

/** The official client as it comes, with its own limits on spending. */
export const versionTwo: PaidScene = {
  title: "Today's official client buys a job with one fetch",
  async play(demo, shop) {
    const { stage, runner, world } = demo;
    const buyer = shop.buyer("version 2");
    const order = shop.order(DEV_JOBS.keccak256, "hello");
    stage.say(
      "wrapFetchWithPayment(fetch, client)(url, { method: 'POST', body: 'hello' })   of @x402/fetch, as it comes",
    );
    const { status, headers, text } = await buyer.fetchPaid(order);
    const { call_id: callId, transaction } = JSON.parse(text);
    stage.check(`it is answered 202: call ${shortId(callId)} is paid for and on disk`, status, 202);

    const receipt = Buffer.from(headers.get("payment-response") ?? "", "base64").toString();
    const charges = await shop.chain.charges(buyer.address);
    stage.check(
      `PAYMENT-RESPONSE names the transaction that the chain has: ${transaction}`,
      charges.map((charge) => charge.transaction),
      [JSON.parse(receipt).transaction],
    );
    const call = { ...order, callId, contentType: "text/plain" };
    await showOneChargeOneJob(demo, shop, { buyer, call, units: KECCAK256_UNITS });
    const [injected] = await world.logs.producer.forEach("call.injected", [callId]);
    if (injected !== undefined) stage.log("producer", injected);
    const answer = JSON.parse((await runner.askAgain(call)).text);
    stage.check(
      `the result at the runner: keccak256 of "hello" is ${KECCAK256_OF_HELLO}`,
      answer.keccak256,
      KECCAK256_OF_HELLO,
    );
  },
};
