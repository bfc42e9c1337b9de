import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { beforeDeadline } from "../../../../shared/dev/wait.ts";
import type { PaidScene } from "../../scene.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { ECHO_UNITS } from "./terms.ts";

/** SIGKILL at the worst instant: the payer is charged, and nothing of the job is in the queue. */
export const killedGateway: PaidScene = {
  title: "The x402 gateway is killed between settling and enqueueing; the job runs all the same",
  async play(demo, shop) {
    const { stage, runner, world } = demo;
    await shop.gateway.kill("SIGTERM");
    await shop.gateway.restart({ POSTERN_FAILPOINT: "x402.after_settled" });
    await shop.untilSelling();
    stage.say("the next gateway gets SIGKILL as soon as a payment has settled, before its call is queued");

    const buyer = shop.buyer("killed gateway");
    const order = shop.order(DEV_JOBS.echo, "the gateway was killed");
    const payment = await buyer.sign(order, await buyer.ask(order));
    const { callId } = payment.call;
    const reply = await buyer.send(payment);
    const exit = await beforeDeadline("the gateway is killed", shop.gateway.process.exit);
    stage.check(
      "the gateway is killed by SIGKILL, and the client has no answer",
      [exit.signal, reply],
      ["SIGKILL", undefined],
    );
    const charges = await shop.chain.charges(buyer.address);
    const found = [charges.length, (await world.queue.look()).waiting, await runner.stateOf(callId)];
    stage.check("the payer is charged; queue and runner know nothing of it", found, [1, 0, "unknown"]);

    await shop.gateway.restart();
    stage.say("a new gateway starts; the client stays away");
    const [again] = await world.logs.x402.forEach("payment.enqueued_again", [callId]);
    if (again !== undefined) stage.log("x402", again);
    await showOneChargeOneJob(demo, shop, { buyer, call: payment.call, units: ECHO_UNITS });

    await shop.untilSelling();
    const late = await buyer.send(payment);
    const answer = JSON.parse(late?.text ?? "{}");
    stage.check(
      "a client that comes back with the same payment has its 202",
      [late?.status, answer.call_id],
      [202, callId],
    );
  },
};
