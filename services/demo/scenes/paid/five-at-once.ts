import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import type { PaidScene } from "../../scene.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { ECHO_UNITS } from "./terms.ts";

const TIMES = 5;

/** An impatient client: the same payment, five times at once. */
export const fiveAtOnce: PaidScene = {
  title: "The same payment, sent five times at once, is one charge and one job",
  async play(demo, shop) {
    const { stage } = demo;
    const buyer = shop.buyer("five at once");
    const order = shop.order(DEV_JOBS.echo, "five times at once");
    const payment = await buyer.sign(order, await buyer.ask(order));
    const replies = await Promise.all(Array.from({ length: TIMES }, () => buyer.send(payment)));
    const each = <Value>(value: Value) => replies.map(() => value);
    stage.check(
      `${TIMES} requests: ${TIMES} times 202`,
      replies.map((reply) => reply?.status),
      each(202),
    );
    stage.check(
      `all ${TIMES} answers are equal, byte for byte`,
      replies.map((reply) => reply?.text),
      each(replies[0]?.text),
    );
    const marked = replies.filter((reply) => reply?.headers["idempotent-replayed"] === "true");
    stage.check(`${TIMES - 1} of them say Idempotent-Replayed: true`, marked.length, TIMES - 1);
    const { settle } = await shop.facilitator.askedAbout(buyer.address);
    stage.check("the facilitator was asked to settle once", settle, 1);
    await showOneChargeOneJob(demo, shop, { buyer, call: payment.call, units: ECHO_UNITS });
  },
};
