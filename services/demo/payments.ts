import { DEV_JOBS } from "../../shared/dev/config.ts";
import { readyPay } from "../../shared/dev/ready-commands.ts";
import { untilSelling } from "../../shared/dev/stack.ts";
import { beforeDeadline, eventually } from "../../shared/dev/wait.ts";
import { type Call, type Demo, runPostern, stateAtRunner, untilDone } from "./demo.ts";
import { jsonOf } from "./http.ts";
import { type Payer, pay, payOnce, type Shop, sign, usdc } from "./shop.ts";
import { shortId } from "./show.ts";

/** Keccak-256 of the five bytes "hello", as published in many places; not computed by our code. */
const KECCAK256_OF_HELLO = "0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8";
/** Prices of the jobs in the token's smallest units, computed by hand: 3200 USDC for 10^18 wei, 10^6 units to the USDC. */
export const ECHO_UNITS = 32_000n;
const KECCAK256_UNITS = 64_000n;

/** The command that a buyer runs, from the price to the result. */
export async function paidJob(demo: Demo, shop: Shop): Promise<void> {
  const { show } = demo;
  const payer = shop.nextPayer();
  const url = shop.job(DEV_JOBS.keccak256);
  const { exitCode, text } = await runPostern(
    demo,
    ["pay", url, "--body", "hello"],
    readyPay(url, { body: "hello", payerKey: payer.privateKey }),
    { POSTERN_PAYER_KEY: payer.privateKey },
  );
  const result = JSON.stringify({ keccak256: KECCAK256_OF_HELLO });
  show.check(`the buyer has the job's result: ${result}`, [exitCode, text.includes(result)], [0, true]);
  const [charge] = await shop.charges(payer);
  show.check(
    `the transaction that it names is on the chain: ${charge?.transaction}`,
    text.includes(`transaction ${charge?.transaction}`),
    true,
  );
  const callId = /^accepted: call (c_\w+)/m.exec(text)?.[1] ?? "";
  await showOneChargeOneRun(demo, shop, payer, { callId, body: "hello" }, KECCAK256_UNITS);
}

/** SIGKILL at the worst instant: the payer is charged, and nothing of the job is in the queue. */
export async function killedGateway(demo: Demo, shop: Shop): Promise<void> {
  const { show, redis, log } = demo;
  const { gateway } = shop;
  await gateway.kill("SIGTERM");
  await gateway.restart({ POSTERN_FAILPOINT: "x402.after_settle" });
  await untilSelling(gateway);
  show.say("the next gateway is killed once the facilitator says that a payment has settled");
  const payer = shop.nextPayer();
  const body = "the gateway was killed";
  const payment = await sign(shop, payer, { url: shop.job(DEV_JOBS.echo), body });
  const isUnanswered = () =>
    payOnce(payment).then(
      () => false,
      () => true,
    );
  const [exit] = await Promise.all([
    beforeDeadline("the gateway is killed", gateway.process.exit),
    eventually("a connection that breaks", isUnanswered),
  ]);
  show.check("the gateway is killed (SIGKILL), and the buyer gets no answer", exit.signal, "SIGKILL");
  const charges = await shop.charges(payer);
  const { waiting } = await redis.calls();
  show.check(
    "the buyer is charged, and neither queue nor runner has heard of the job",
    [charges.length, waiting, await stateAtRunner(demo, payment.callId)],
    [1, 0, "unknown"],
  );

  await gateway.restart();
  show.say("a new gateway starts, and the buyer stays away");
  show.log("x402", await log.ofCall("payment.reconciled", payment.callId));
  await showOneChargeOneRun(demo, shop, payer, payment, ECHO_UNITS);
  await untilSelling(gateway);
  const late = await pay(payment);
  show.check(
    `202: a buyer that comes back with the same payment has bought call ${shortId(payment.callId)}`,
    [late.status, jsonOf(late)["call_id"]],
    [202, payment.callId],
  );
}

/** Waits for the job, and shows that the payer was charged the price once and that the job ran once. */
export async function showOneChargeOneRun(
  demo: Demo,
  shop: Shop,
  payer: Payer,
  call: Call,
  units: bigint,
): Promise<void> {
  await untilDone(demo, [call]);
  await demo.log.ofCall("job.finished", call.callId);
  const charges = await shop.charges(payer);
  demo.show.check(
    `the chain has one charge, of ${usdc(units)}, and the runner has run the job once`,
    [charges.map((charge) => charge.units), demo.log.runs().get(call.callId)],
    [[units], 1],
  );
}
