import { DEV_JOBS } from "../../../shared/dev/config.ts";
import { readyPay } from "../../../shared/dev/ready-commands.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { beforeDeadline, eventually } from "../../../shared/dev/wait.ts";
import { atRunner, type Call, httpRequest, runPostern, untilRun } from "./demo.ts";
import { type PaidChapter, type Payer, pay, payOnce, type Shop, sign, usdc } from "./shop.ts";
import { shortId, show } from "./show.ts";

/** Keccak-256 of the five bytes "hello". It is copied from public sources, so that the check does not rely on our code. */
const KECCAK256_OF_HELLO = "0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8";
/**
 * Prices of the jobs in the token's smallest units. They are computed by hand, so that the check does not rely on our
 * code. The rate is 3200 USDC for 10^18 wei, and one USDC has 10^6 units.
 */
const ECHO_UNITS = 32_000n;
const KECCAK256_UNITS = 64_000n;

export const paidJob: PaidChapter = {
  title: "A client pays for a job and gets its result",
  async buy(shop) {
    const [payer, url, body] = [shop.nextPayer(), shop.job(DEV_JOBS.keccak256), "hello"];
    const payerKey = payer.privateKey;
    const { exitCode, text } = await runPostern(
      shop,
      ["pay", url, "--body", body],
      readyPay(url, { body, payerKey }),
      { POSTERN_PAYER_KEY: payerKey },
    );
    const result = JSON.stringify({ keccak256: KECCAK256_OF_HELLO });
    show.check(`the payer has the job's result: ${result}`, [exitCode, text.includes(result)], [0, true]);
    const [charge] = await shop.charges(payer);
    show.check(
      `the transaction in this output is on the chain: ${charge?.transaction}`,
      text.includes(`transaction ${charge?.transaction}`),
      true,
    );
    const callId = /^accepted: call (c_\w+)/m.exec(text)?.[1] ?? "";
    await showOneChargeOneRun(shop, { payer, callId, body }, KECCAK256_UNITS);
  },
};

/** The gateway is killed at the worst moment: the payer is charged already, but the call is not in the queue yet. */
export const killedGateway: PaidChapter = {
  title: "The gateway is killed during a payment, and the paid job still runs",
  async buy(shop) {
    const { redis, log, gateway } = shop;
    await gateway.restart({ POSTERN_FAILPOINT: "x402.after_settle" });
    await untilSelling(gateway);
    show.say(
      "the gateway is restarted; it will be killed when the facilitator reports that a payment has settled",
    );
    const payment = await sign(shop, { job: DEV_JOBS.echo, body: "the gateway was killed" });
    const isUnanswered = () =>
      payOnce(payment).then(
        () => false,
        () => true,
      );
    const [exit] = await Promise.all([
      beforeDeadline("the gateway is killed", gateway.process.exit),
      eventually("a connection that breaks", isUnanswered),
    ]);
    show.check("the gateway is killed (SIGKILL), and the payer gets no answer", exit.signal, "SIGKILL");
    const { length: charges } = await shop.charges(payment.payer);
    const { waiting } = await redis.calls();
    show.check(
      "the payer is charged, but the call is neither in the queue nor at the runner",
      [charges, waiting, await atRunner(shop, payment.callId)],
      [1, 0, {}],
    );

    await gateway.restart();
    show.say("a new gateway starts, and the payer sends nothing");
    show.log("x402", await log.ofCall("payment.reconciled", payment.callId));
    await showOneChargeOneRun(shop, payment, ECHO_UNITS);
    await untilSelling(gateway);
    const late = await pay(payment);
    show.check(
      `202: the same payment, sent again later, gets call ${shortId(payment.callId)}`,
      [late.status, late.callId],
      [202, payment.callId],
    );
  },
};

const TIMES = 5;
/** Fields of a 202 answer that give access to the result. At most one of the answers to a payment contains them. */
const ACCESS = /,"result_token":"[^"]+","result_url":"[^"]+"/;

export const fiveAtOnce: PaidChapter = {
  title: "One payment, sent five times at once by an x402 version 1 client, is one charge and one call",
  more: true,
  async buy(shop) {
    const payment = await sign(shop, { job: DEV_JOBS.echo, body: "five times at once", version: 1 });
    const replies = await Promise.all(Array.from({ length: TIMES }, () => pay(payment)));
    const statuses = replies.map(({ status }) => status);
    show.check(`${TIMES} requests are sent, and all get 202`, statuses, Array(TIMES).fill(202));
    const texts = replies.map(({ text }) => text);
    show.check(
      "all answers are equal byte for byte, except for the result token",
      new Set(texts.map((text) => text.replace(ACCESS, ""))).size,
      1,
    );
    show.check(
      "at most one answer has the result token, because anyone who has seen a payment can repeat it",
      texts.filter((text) => ACCESS.test(text)).length > 1,
      false,
    );
    await showOneChargeOneRun(shop, payment, ECHO_UNITS);
  },
};

/**
 * The facilitator makes the payment, but the gateway does not get the facilitator's answer. The payer must not get a 402,
 * which would mean that they have not paid, and must not be charged twice.
 */
export const lostReply: PaidChapter = {
  title: "The facilitator's answer is lost, and the gateway finds the payment on the chain",
  more: true,
  async buy(shop) {
    const fault = JSON.stringify({ on: "settle", kind: "drop", acts: true, times: 1 });
    const { status } = await httpRequest(`${shop.devnet.controlUrl}/faults`, fault);
    show.check("the facilitator is set to settle the next payment and drop the connection", status, 201);
    const payment = await sign(shop, { job: DEV_JOBS.echo, body: "the reply was lost" });
    const reply = await pay(payment);
    show.check("the payer, who has paid, gets 202 and not 402", reply.status, 202);
    const found = await shop.log.ofCall("payment.reconciled", payment.callId);
    show.log("x402", found);
    show.check("the gateway has found the transaction on the chain", found["by"], "chain");
    await showOneChargeOneRun(shop, payment, ECHO_UNITS);
  },
};

export const unfitBody: PaidChapter = {
  title: "A payment is refused, and not charged, if the body does not match the job's schema",
  more: true,
  async buy(shop) {
    const payment = await sign(shop, { job: DEV_JOBS.slow, body: '{"steps":0}' });
    const { text: schema } = await httpRequest(`${payment.url}/schema`);
    show.say(`${payment.url}/schema is the schema of the job's body:`);
    show.output([schema]);
    const reply = await pay(payment);
    const { code, errors } = reply.json as { code?: string; errors?: { pointer: string }[] };
    show.check(
      `a valid payment for ${payment.body} gets 422 ${code} at ${errors?.[0]?.pointer}`,
      [reply.status, code, errors?.[0]?.pointer],
      [422, "request.input_invalid", "#/steps"],
    );
    show.check(
      "the payer is not charged, and the runner has not received the call",
      [await shop.charges(payment.payer), await atRunner(shop, payment.callId)],
      [[], {}],
    );
  },
};

/** Waits until the bought call has run. Then shows that the payer was charged once, and that the call ran once. */
async function showOneChargeOneRun(shop: Shop, bought: Call & { payer: Payer }, units: bigint) {
  await untilRun(shop, bought);
  const charges = await shop.charges(bought.payer);
  show.check(
    `the chain has one charge of ${usdc(units)}, and the runner has run the call once`,
    [charges.map((charge) => charge.units), shop.log.runs().get(bought.callId)],
    [[units], 1],
  );
}
