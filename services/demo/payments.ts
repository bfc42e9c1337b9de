import { DEV_JOBS } from "../../shared/dev/config.ts";
import { toHex } from "../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../shared/ethereum/signatures.ts";
import { domainSeparator } from "../../shared/ethereum/typed-data.ts";
import { decodeQuoteHeader, jobQuoteDigest } from "../../shared/pricing/job-quote.ts";
import type { Buyer } from "./buyer.ts";
import type { Demo } from "./demo.ts";
import type { PaymentFixture, PricingEngine, QuoteReply } from "./payment-fixture.ts";
import { type AcceptedCall, httpRequest } from "./sender.ts";
import { type Show, shortId, usdc } from "./show.ts";
import { offersOf } from "./views.ts";
import { KECCAK256_OF_HELLO } from "./webhooks.ts";
import { RESTRICTED_JOB, SERVICE_ID } from "./world.ts";

/*
 * The prices of the demo's jobs in the token's smallest units, worked out by hand: 3200 USDC for 10^18 wei, and 10^6 units
 * to the USDC. 10^13 wei are 0.032 USDC.
 */
export const ECHO_UNITS = 32_000n;
const KECCAK256_UNITS = 64_000n;

/** The price as anybody may read it, and the same price in the 402 that both versions of the protocol can pay. */
export async function price({ show }: Demo, payments: PaymentFixture): Promise<void> {
  show.scenario("A job has a price, and a 402 that clients of both versions of x402 can pay");
  const { devnet, gateway } = payments;
  const order = payments.order(DEV_JOBS.keccak256, "hello");
  const reply = await httpRequest(gateway.address, { method: "GET", path: `${order.path}/price` });
  const { price_wei: wei, settlement_options: options } = JSON.parse(reply.text);
  const units = String(KECCAK256_UNITS);
  show.check(
    `GET ${order.path}/price: ${wei} wei, at 3200 USDC for 10^18 wei ${usdc(KECCAK256_UNITS)} USDC`,
    [reply.status, options[0].amount],
    [200, units],
  );
  show.output([reply.text]);

  const asked = await payments.buyer("version 2").ask(order);
  show.check(`POST ${order.path} without a payment is answered 402`, asked.status, 402);
  const [offer] = decodeHeader(asked.headers["payment-required"]).accepts;
  show.check(
    `its PAYMENT-REQUIRED header offers version 2: ${offer.amount} units to ${offer.payTo}`,
    [offer.network, offer.amount, offer.payTo],
    [devnet.network, units, devnet.seller],
  );
  const [offerV1] = JSON.parse(asked.text).accepts;
  show.check(
    `its body offers version 1: ${offerV1.maxAmountRequired} units on ${offerV1.network}`,
    [offerV1.network, offerV1.maxAmountRequired, offerV1.payTo],
    ["base-sepolia", units, devnet.seller],
  );
}

/** The official client as it comes, with its own limits on spending. It waits for what it has bought. */
export async function versionTwo(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show, world } = demo;
  show.scenario("Today's official client buys a job with one fetch, and has its output");
  const buyer = payments.buyer("version 2");
  const order = payments.order(DEV_JOBS.keccak256, "hello");
  show.say(
    "wrapFetchWithPayment(fetch, client)(url, { method: 'POST', body: 'hello', headers: { Prefer: 'wait=10' } })",
  );
  show.say("  of @x402/fetch, as it comes");
  const { callId, status, headers, text } = await buyer.fetchResult(order, 10);
  show.check(
    `it is answered 200 with the job's output: ${text}`,
    [status, text],
    [200, JSON.stringify({ keccak256: KECCAK256_OF_HELLO })],
  );

  const { transaction } = decodeHeader(headers.get("payment-response"));
  const charges = await payments.chain.charges(buyer.address);
  show.check(
    `PAYMENT-RESPONSE names the transaction that the chain has: ${transaction}`,
    charges.map((charge) => charge.transaction),
    [transaction],
  );
  const call = { ...order, callId, contentType: "text/plain" };
  await showOneChargeOneJob(demo, payments, buyer, call, KECCAK256_UNITS);
  show.log("producer", await world.logs.producer.ofCall("call.injected", callId));
}

/** A client of version 1 reads nothing but the body of the 402. */
export async function versionOne(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show, runner } = demo;
  show.scenario("A client of version 1 buys one too");
  const buyer = payments.buyer("version 1");
  const order = payments.order(DEV_JOBS.echo, "paid in version 1");
  const { headers, call } = await buyer.signV1(order, await buyer.ask(order));
  const reply = await buyer.send({ headers, call });
  const answer = JSON.parse(reply?.text ?? "{}");
  show.check(
    `X-PAYMENT is answered 202: call ${shortId(call.callId)}`,
    [reply?.status, answer.call_id],
    [202, call.callId],
  );
  const charges = await payments.chain.charges(buyer.address);
  show.check(
    `X-PAYMENT-RESPONSE names the transaction that the chain has: ${answer.transaction}`,
    charges.map(({ transaction }) => transaction),
    [decodeHeader(reply?.headers["x-payment-response"]).transaction],
  );
  await showOneChargeOneJob(demo, payments, buyer, call, ECHO_UNITS);
  const { text } = await runner.askAgain(call);
  show.check(`the result at the runner: echo answered "${text}"`, text, order.body);
}

/** The JSON of an x402 header, which is base64. */
function decodeHeader(header: unknown) {
  return JSON.parse(Buffer.from(String(header), "base64").toString());
}

/** The gateway refuses before money moves. */
export async function deniedCaller({ show, world, runner }: Demo, payments: PaymentFixture): Promise<void> {
  show.scenario("A caller whom the job's contract does not permit is refused, and not charged");
  const buyer = payments.buyer("denied");
  const order = payments.order(RESTRICTED_JOB, '{"steps":1}');
  const registry = payments.devnet.callerRegistry;
  show.say(`job ${RESTRICTED_JOB} asks isPermittedCaller(${SERVICE_ID}, payer) of ${registry}`);
  const { headers, call } = await buyer.sign(order, await buyer.ask(order));
  const reply = await buyer.send({ headers, call });
  const { code } = JSON.parse(reply?.text ?? "{}");
  show.check(
    `a good payment of another's is answered 403 ${code}`,
    [reply?.status, code],
    [403, "caller.not_permitted"],
  );
  show.log("x402", await world.logs.x402.ofCall("payment.refused", call.callId));
  const asked = await payments.facilitator.askedAbout(buyer.address);
  show.check("the facilitator has never heard of it", asked, { verify: 0, settle: 0 });
  const balance = await payments.chain.balanceOf(buyer.address);
  show.check(
    "the payer has every token still, and the runner no such call",
    [balance === payments.before.get(buyer.name), await runner.stateOf(call.callId)],
    [true, "unknown"],
  );
}

/** The buyer is the one of the scenario above: he is charged in neither. */
export async function unfitBody({ show, runner }: Demo, payments: PaymentFixture): Promise<void> {
  show.scenario("A body that is not what its job takes is refused, and not charged");
  const buyer = payments.buyer("denied");
  const order = payments.order(DEV_JOBS.slow, '{"steps":0}');
  const { text: schema } = await httpRequest(payments.gateway.address, {
    method: "GET",
    path: `${order.path}/schema`,
  });
  show.say(`GET ${order.path}/schema tells what the job takes:`);
  show.output([schema]);
  const { headers, call } = await buyer.sign(order, await buyer.ask(order));
  const reply = await buyer.send({ headers, call });
  const { code, errors } = JSON.parse(reply?.text ?? "{}");
  show.check(
    `a good payment for ${order.body} is answered 422 ${code}: ${errors?.[0]?.pointer} ${errors?.[0]?.detail}`,
    [reply?.status, code, errors?.[0]?.pointer],
    [422, "request.input_invalid", "#/steps"],
  );
  const balance = await payments.chain.balanceOf(buyer.address);
  show.check(
    "the facilitator has never heard of it, the payer has every token still, and the runner no such call",
    [
      await payments.facilitator.askedAbout(buyer.address),
      balance === payments.before.get(buyer.name),
      await runner.stateOf(call.callId),
    ],
    [{ verify: 0, settle: 0 }, true, "unknown"],
  );
}

/** One quote can be redeemed on chain or, as here, paid off chain. Engine and gateway share no memory. */
export async function signedQuote(demo: Demo, payments: PaymentFixture): Promise<void> {
  const { show } = demo;
  show.scenario("The pricing engine signs a quote; it is paid through x402, at its price and once");
  const buyer = payments.buyer("signed quote");
  const order = payments.order(DEV_JOBS.echo, "by a signed quote");
  const quoted = await payments.engine.quote(order, buyer.address.toLowerCase());
  const digest = showQuote(show, payments.engine, quoted);

  const byQuote = { ...order, headers: { "X-PLATFORM-QUOTE": quoted.quote_header } };
  const asked = await buyer.ask(byQuote);
  const [payment, another] = [await buyer.sign(byQuote, asked), await buyer.sign(byQuote, asked)];
  const reply = await buyer.send(payment);
  const { receipt } = JSON.parse(reply?.text ?? "{}");
  show.check(
    `paid with X-PLATFORM-QUOTE it is answered 202, and the job carries the quote's digest ${digest}`,
    [reply?.status, receipt?.quote_digest],
    [202, digest],
  );
  await showOneChargeOneJob(demo, payments, buyer, payment.call, ECHO_UNITS);

  const again = await buyer.send(another);
  const { code } = JSON.parse(again?.text ?? "{}");
  show.check(
    `another payment by the same quote is answered 409 ${code}, and not charged`,
    [again?.status, code],
    [409, "quote.used"],
  );
}

/** Returns the quote's digest. */
function showQuote(show: Show, { domain, difficulty }: PricingEngine, quoted: QuoteReply): string {
  const { quote_details: details, operator_id: operator, settlement_options: options } = quoted;
  const decoded = decodeQuoteHeader(quoted.quote_header);
  if (!decoded.ok) throw new Error(`expected: a quote; ${decoded.problem}`);
  const { quote, signature } = decoded.signed;
  const digest = jobQuoteDigest(domainSeparator(domain), quote);
  show.check(
    `after a proof of work of ${difficulty} bits it quotes ${details["price"]} wei, signed by its operator ${operator}`,
    recoverAddress(digest, signature),
    operator,
  );
  const [option] = options;
  const price = `${usdc(BigInt(option?.amount ?? 0))} ${option?.symbol} on ${option?.network}`;
  show.check(
    `the quote can be settled off chain: ${price}, at ${new URL(quoted.x402_endpoint).pathname}`,
    options.map(({ amount }) => amount),
    [String(ECHO_UNITS)],
  );
  return toHex(digest);
}

/** Shows that the payer was charged once, exactly the price, and that the job ran once; waits for the job. */
export async function showOneChargeOneJob(
  { show, runner, world }: Demo,
  { chain }: PaymentFixture,
  buyer: Buyer,
  call: AcceptedCall,
  units: bigint,
): Promise<void> {
  await runner.untilDone([call]);
  await world.logs.runner.ofCall("job.finished", call.callId);
  const charges = await chain.charges(buyer.address);
  const { runs } = offersOf(world.logs.runner, (callId) => callId === call.callId);
  show.check(
    `on the chain the payer was charged once, ${usdc(units)} USDC, and at the runner the job ran once`,
    [charges.map((charge) => String(charge.units)), [...runs.values()]],
    [[String(units)], [1]],
  );
}
