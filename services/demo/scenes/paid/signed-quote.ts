import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { toHex } from "../../../../shared/ethereum/hex.ts";
import { recoverAddress } from "../../../../shared/ethereum/recover.ts";
import { domainSeparator } from "../../../../shared/ethereum/typed-data.ts";
import { jobQuoteDigest } from "../../../../shared/pricing/job-quote.ts";
import { decodeQuoteHeader } from "../../../../shared/pricing/quote-header.ts";
import type { PaidScene } from "../../scene.ts";
import type { Buyer, Order } from "../../shop/buyer.ts";
import type { Engine, Quoted } from "../../shop/engine.ts";
import { usdc } from "../../shop/usdc.ts";
import type { Stage } from "../../stage.ts";
import { showOneChargeOneJob } from "./one-charge-one-job.ts";
import { ECHO_UNITS } from "./terms.ts";

/** One quote, two ways to use it: redeemed on chain, or as here paid off chain. The two services share no memory. */
export const signedQuote: PaidScene = {
  title: "The pricing engine signs a quote; it is paid through x402, at its price and once",
  async play(demo, shop) {
    const { stage } = demo;
    const buyer = shop.buyer("signed quote");
    const order = shop.order(DEV_JOBS.echo, "by a signed quote");
    const quoted = await shop.engine.quote(order, buyer.address.toLowerCase());
    const digest = showQuote(stage, shop.engine, quoted);

    const byQuote = { ...order, headers: { "X-PLATFORM-QUOTE": quoted.quote_header } };
    const payment = await buyer.sign(byQuote, await buyer.ask(byQuote));
    const reply = await buyer.send(payment);
    const { receipt } = JSON.parse(reply?.text ?? "{}");
    stage.check(
      `paid with X-PLATFORM-QUOTE it is answered 202, and the job carries the quote's digest ${digest}`,
      [reply?.status, receipt?.quote_digest],
      [202, digest],
    );
    await showOneChargeOneJob(demo, shop, { buyer, call: payment.call, units: ECHO_UNITS });
    await showUsedUp(stage, buyer, byQuote);
  },
};

/** Answers the quote's digest. */
function showQuote(stage: Stage, { domain, difficulty }: Engine, quoted: Quoted): string {
  const {
    quote_details: details,
    operator_id: operator,
    settlement_options: options,
    x402_endpoint,
  } = quoted;
  const decoded = decodeQuoteHeader(quoted.quote_header);
  if (!decoded.ok) throw new Error(`expected: a quote; ${decoded.problem}`);
  const { quote, signature } = decoded.signed;
  const digest = jobQuoteDigest(domainSeparator(domain), quote);
  stage.check(
    `after a proof of work of ${difficulty} bits it quotes ${details["price"]} wei, signed by its operator ${operator}`,
    recoverAddress(digest, signature),
    operator,
  );
  const [option] = options;
  const units = BigInt(option?.amount ?? 0);
  stage.check(
    `the quote can be settled off chain: ${usdc(units)} ${option?.symbol} on ${option?.network}, at ${new URL(x402_endpoint).pathname}`,
    options.map(({ amount }) => amount),
    [String(ECHO_UNITS)],
  );
  return toHex(digest);
}

async function showUsedUp(stage: Stage, buyer: Buyer, byQuote: Order): Promise<void> {
  const reply = await buyer.send(await buyer.sign(byQuote, await buyer.ask(byQuote)));
  const { code } = JSON.parse(reply?.text ?? "{}");
  stage.check(
    `another payment by the same quote is answered 409 ${code}, and not charged`,
    [reply?.status, code],
    [409, "quote.used"],
  );
}
