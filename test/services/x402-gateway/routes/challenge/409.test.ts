import { generatePrivateKey } from "viem/accounts";
import { expect, test } from "vitest";
import { createSigner } from "../../../../../shared/ethereum/signatures.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { signOffer, useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, QUOTED, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

/** A quote that a payment has used up. */
async function usedQuote() {
  const x402 = await fixture.gateway(honouringQuotes);
  const { header } = signQuote(quoteOf(fixture.payer));
  const payment = await signOffer(await x402.post(header), { payer: fixture.payer });
  expect((await x402.post({ ...header, ...payment })).status).toBe(202);
  expect(await fixture.charged()).toEqual([QUOTED]);
  return { x402, header };
}

test("an unpaid request with an operator's quote that was used is refused with 409 on every replica, and offered nothing", async () => {
  const { x402, header } = await usedQuote();
  const other = await fixture.gateway(honouringQuotes);
  for (const gateway of [x402, other]) {
    const answer = await gateway.post(header);
    expect([answer.status, answer.json()["code"]]).toEqual([409, "quote.used"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
  }
});

const isLook = ([, key = ""]: readonly string[]) => key.startsWith(keys.usedQuote(""));
const behindProxy = () => ({ ...honouringQuotes, redisUrl: proxy.url, directUrl: fixture.redis.url });

test("while Redis does not answer, an unpaid request with a used quote is asked for payment, which the claim refuses", async () => {
  const { header } = await usedQuote();
  const x402 = await fixture.gateway(behindProxy());
  proxy.onCommand = (words) => (isLook(words) ? { kind: "hang" } : undefined);
  expect((await x402.post(header)).status).toBe(402);
});

test("Redis is asked whether a quote was used for a quote that is honoured, and for no other unpaid request", async () => {
  const x402 = await fixture.gateway(behindProxy());
  let looks = 0;
  proxy.onCommand = (words) => {
    if (isLook(words)) looks += 1;
    return undefined;
  };
  const strangers = signQuote(quoteOf(fixture.payer), { by: createSigner(generatePrivateKey()) });
  expect((await x402.post()).status).toBe(402);
  expect((await x402.post(strangers.header)).status).toBe(403);
  expect(looks).toBe(0);
  expect((await x402.post(signQuote(quoteOf(fixture.payer)).header)).status).toBe(402);
  expect(looks).toBe(1);
});
