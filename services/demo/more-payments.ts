import { DEV_JOBS } from "../../shared/dev/config.ts";
import { type Demo, stateAtRunner } from "./demo.ts";
import { httpRequest, jsonOf } from "./http.ts";
import { ECHO_UNITS, showOneChargeOneRun } from "./payments.ts";
import { pay, type Shop, sign } from "./shop.ts";

const TIMES = 5;
/** The part of a 202 that gives access to the result. */
const ACCESS = /,"result_token":"[^"]+","result_url":"[^"]+"/;

/** An impatient client, and an old one: it reads nothing but the body of the 402, and sends one payment five times at once. */
export async function fiveAtOnce(demo: Demo, shop: Shop): Promise<void> {
  const { show } = demo;
  const payer = shop.nextPayer();
  const order = { url: shop.job(DEV_JOBS.echo), body: "five times at once", version: 1 } as const;
  const payment = await sign(shop, payer, order);
  const replies = await Promise.all(Array.from({ length: TIMES }, () => pay(payment)));
  const each = <Value>(value: Value) => replies.map(() => value);
  show.check(
    `${TIMES} requests: ${TIMES} times 202`,
    replies.map(({ status }) => status),
    each(202),
  );
  const texts = replies.map(({ text }) => text);
  const toAnybody = texts.map((text) => text.replace(ACCESS, ""));
  show.check(
    "all answers are equal, byte for byte, but for the token of the result",
    toAnybody,
    each(toAnybody[0]),
  );
  show.check(
    "no two of them have it, because a payment can be repeated by anyone who has seen it",
    texts.filter((text) => ACCESS.test(text)).length > 1,
    false,
  );
  await showOneChargeOneRun(demo, shop, payer, payment, ECHO_UNITS);
}

/** Money has moved, and the facilitator did not say so: the answer must be neither 402 nor a second charge. */
export async function lostReply(demo: Demo, shop: Shop): Promise<void> {
  const { show, log } = demo;
  const payer = shop.nextPayer();
  const fault = JSON.stringify({ on: "settle", kind: "drop", acts: true, times: 1 });
  const ordered = await httpRequest(`${shop.devnet.controlUrl}/faults`, { body: fault });
  show.check("the facilitator will settle the next payment, and break the connection", ordered.status, 201);
  const payment = await sign(shop, payer, { url: shop.job(DEV_JOBS.echo), body: "the reply was lost" });
  const reply = await pay(payment);
  show.check("the buyer, who has paid, is answered 202 and not 402", reply.status, 202);
  const found = await log.ofCall("payment.reconciled", payment.callId);
  show.log("x402", found);
  show.check("the gateway has found the transaction on the chain", found["by"], "chain");
  await showOneChargeOneRun(demo, shop, payer, payment, ECHO_UNITS);
}

/** The gateway refuses before money moves. */
export async function unfitBody(demo: Demo, shop: Shop): Promise<void> {
  const { show } = demo;
  const payer = shop.nextPayer();
  const url = shop.job(DEV_JOBS.slow);
  const { text: schema } = await httpRequest(`${url}/schema`);
  show.say(`${url}/schema says what the job takes:`);
  show.output([schema]);
  const payment = await sign(shop, payer, { url, body: '{"steps":0}' });
  const reply = await pay(payment);
  const { code, errors } = jsonOf(reply) as { code?: string; errors?: { pointer: string }[] };
  show.check(
    `a good payment for ${payment.body} is answered 422 ${code}, at ${errors?.[0]?.pointer}`,
    [reply.status, code, errors?.[0]?.pointer],
    [422, "request.input_invalid", "#/steps"],
  );
  show.check(
    "the buyer is not charged, and the runner has never heard of the job",
    [await shop.charges(payer), await stateAtRunner(demo, payment.callId)],
    [[], "unknown"],
  );
}
