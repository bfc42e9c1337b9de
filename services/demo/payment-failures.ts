import { DEV_JOBS } from "../../shared/dev/config.ts";
import { untilSelling } from "../../shared/dev/stack.ts";
import { beforeDeadline, eventually } from "../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import type { PaymentFixture } from "./payment-fixture.ts";
import { ECHO_UNITS, showOneChargeOneJob } from "./payments.ts";
import { httpRequest } from "./sender.ts";

const TIMES = 5;
/** What a 202 says of the way to the result. */
const ACCESS = /,"result_token":"[^"]+","result_url":"[^"]+"/;

/** An impatient client: the same payment, five times at once. */
export async function fiveAtOnce(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show } = demo;
  show.scenario("The same payment, sent five times at once, is one charge and one job");
  const buyer = payments.buyer("five at once");
  const order = payments.order(DEV_JOBS.echo, "five times at once");
  const payment = await buyer.sign(order, await buyer.ask(order));
  const replies = await Promise.all(Array.from({ length: TIMES }, () => buyer.send(payment)));
  const each = <Value>(value: Value) => replies.map(() => value);
  show.check(
    `${TIMES} requests: ${TIMES} times 202`,
    replies.map((reply) => reply?.status),
    each(202),
  );
  const texts = replies.map((reply) => reply?.text ?? "");
  const toAnybody = texts.map((text) => text.replace(ACCESS, ""));
  show.check(
    `all ${TIMES} answers are equal, byte for byte, but for the way to the result`,
    toAnybody,
    each(toAnybody[0]),
  );
  const withToken = texts.filter((text) => ACCESS.test(text));
  show.check("one of them alone gives that, since anybody may repeat a payment", withToken.length, 1);
  const marked = replies.filter((reply) => reply?.headers["idempotent-replayed"] === "true");
  show.check(`${TIMES - 1} of them say Idempotent-Replayed: true`, marked.length, TIMES - 1);
  const { settle } = await payments.facilitator.askedAbout(buyer.address);
  show.check("the facilitator was asked to settle once", settle, 1);
  await showOneChargeOneJob(demo, payments, buyer, payment.call, ECHO_UNITS);
}

/** Money has moved, and nobody said so: the answer may be neither 402 nor a second charge. */
export async function lostReply(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show, world } = demo;
  show.scenario(
    "The facilitator's reply is lost after the transaction landed; the client waits until the chain shows it",
  );
  const buyer = payments.buyer("lost reply");
  const order = payments.order(DEV_JOBS.echo, "the reply was lost");
  await payments.facilitator.loseNextReply();
  const payment = await buyer.sign(order, await buyer.ask(order));
  const { callId } = payment.call;
  const first = await buyer.send(payment);
  const charges = await payments.chain.charges(buyer.address);
  show.check("the transaction is on the chain, and the facilitator's connection broke", charges.length, 1);
  const answer = JSON.parse(first?.text ?? "{}");
  show.check(
    "the client, who has sent it once, is answered 202 with the call's status URL, not 402",
    [first?.status, answer.call_id, first?.headers["idempotent-replayed"], first?.headers.location],
    [202, callId, undefined, answer.status_url],
  );
  const found = await world.logs.x402.ofCall("payment.reconciled", callId);
  show.check("the gateway had found the transaction on the chain", found["by"], "chain");
  show.log("x402", found);

  const again = await buyer.send(payment);
  show.check(
    "the same payment, sent again, is answered 202 as a repeat",
    [again?.status, JSON.parse(again?.text ?? "{}").call_id, again?.headers["idempotent-replayed"]],
    [202, callId, "true"],
  );
  const { pathname: path } = new URL(answer.status_url);
  let state: unknown;
  await eventually("its status_url says injected", async () => {
    const { text } = await httpRequest(payments.gateway.address, { method: "GET", path });
    state = JSON.parse(text).state;
    return state === "injected";
  });
  show.check(`its status_url says: ${state}`, state, "injected");
  await showOneChargeOneJob(demo, payments, buyer, payment.call, ECHO_UNITS);
}

/** SIGKILL at the worst instant: the payer is charged, and nothing of the job is in the queue. */
export async function killedGateway(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show, runner, world } = demo;
  const { gateway, chain } = payments;
  show.scenario(
    "The x402 gateway is killed between settling and writing that down; the job runs all the same",
  );
  await gateway.kill("SIGTERM");
  await gateway.restart({ POSTERN_FAILPOINT: "x402.after_settle" });
  await untilSelling(gateway);
  show.say("the next gateway gets SIGKILL as soon as the facilitator says that a payment has settled");

  const buyer = payments.buyer("killed gateway");
  const order = payments.order(DEV_JOBS.echo, "the gateway was killed");
  const payment = await buyer.sign(order, await buyer.ask(order));
  const { callId } = payment.call;
  const reply = await buyer.send(payment);
  const exit = await beforeDeadline("the gateway is killed", gateway.process.exit);
  show.check(
    "the gateway is killed by SIGKILL, and the client has no answer",
    [exit.signal, reply],
    ["SIGKILL", undefined],
  );
  const charges = await chain.charges(buyer.address);
  const { waiting } = await world.queue.look();
  show.check(
    "the payer is charged; queue and runner know nothing of it",
    [charges.length, waiting, await runner.stateOf(callId)],
    [1, 0, "unknown"],
  );

  await gateway.restart();
  show.say("a new gateway starts; the client stays away");
  show.log("x402", await world.logs.x402.ofCall("payment.reconciled", callId));
  await showOneChargeOneJob(demo, payments, buyer, payment.call, ECHO_UNITS);

  await untilSelling(gateway);
  const late = await buyer.send(payment);
  show.check(
    "a client that comes back with the same payment has its 202",
    [late?.status, JSON.parse(late?.text ?? "{}").call_id],
    [202, callId],
  );
}
