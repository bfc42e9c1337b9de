import { RESTRICTED_JOB, SERVICE_ID } from "../../demo-config.ts";
import type { PaidScene } from "../../scene.ts";

/** What refuses comes before money moves. */
export const deniedCaller: PaidScene = {
  title: "A caller whom the job's contract does not permit is refused, and not charged",
  async play({ stage, world, runner }, shop) {
    const buyer = shop.buyer("denied");
    const order = shop.order(RESTRICTED_JOB, '{"steps":1}');
    stage.say(
      `job ${RESTRICTED_JOB} asks isPermittedCaller(${SERVICE_ID}, payer) of ${shop.devnet.callerRegistry}`,
    );
    const payment = await buyer.sign(order, await buyer.ask(order));
    const reply = await buyer.send(payment);
    const { code } = JSON.parse(reply?.text ?? "{}");
    stage.check(
      `a good payment of another's is answered 403 ${code}`,
      [reply?.status, code],
      [403, "caller.not_permitted"],
    );
    const refusal = await world.logs.x402.first(
      "payment.refused in the gateway's log",
      ({ event, callId }) => event === "payment.refused" && callId === payment.call.callId,
    );
    stage.log("x402", refusal);
    const asked = await shop.facilitator.askedAbout(buyer.address);
    stage.check("the facilitator has never heard of it", asked, { verify: 0, settle: 0 });
    const balance = await shop.chain.balanceOf(buyer.address);
    stage.check(
      "the payer has every token still, and the runner no such call",
      [balance === shop.before.get(buyer.name), await runner.stateOf(payment.call.callId)],
      [true, "unknown"],
    );
  },
};
