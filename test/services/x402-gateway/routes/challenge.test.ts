import { generatePrivateKey } from "viem/accounts";
import { describe, expect, test } from "vitest";
import { createSigner } from "../../../../shared/chain/signatures.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { signOffer, useX402 } from "../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { answerJson, startFaultyFacilitator } from "../facilitator/faulty-facilitator.ts";
import { honouringQuotes, QUOTED, quoteOf, signQuote } from "../operator-quotes.ts";
import { rateless } from "../rateless.ts";

const fixture = useX402();

describe("400", () => {
  test.each(sample(["e30=", "", "no quote"]))(
    "an unpaid request with an unreadable operator's quote (%j) is refused with 400",
    async (quote) => {
      const x402 = await fixture.gateway(honouringQuotes);
      const answer = await x402.post({ "X-PLATFORM-QUOTE": quote });
      expect([answer.status, answer.json()["code"]]).toEqual([400, "quote.malformed"]);
      expect(answer.headers["payment-required"]).toBeUndefined();
    },
  );
});

describe("403", () => {
  test("an unpaid request for a disabled job is refused with 403 and without offers", async () => {
    const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
    const x402 = await fixture.gateway({ x402: { job_policies } });
    const answer = await x402.post();
    expect(answer.status).toBe(403);
    expect(answer.json()).toMatchObject({ code: "job.disabled", service_id: 1, job_index: 7 });
    expect(answer.headers["payment-required"]).toBeUndefined();
  });

  test("an unpaid request with another job's operator quote is refused with 403 and without an offer at another price", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const answer = await x402.post(signQuote(quoteOf(fixture.payer, { jobIndex: 8 })).header);
    expect([answer.status, answer.json()["code"]]).toEqual([403, "quote.rejected"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  });
});

describe("404", () => {
  test.each(sample(["/x402/jobs/1/4294967295", "/x402/jobs/2/7", "/x402/jobs/0/0"]))(
    "an unpaid request for %s, a job without a price, is refused with 404, and the answer names the job",
    async (path) => {
      const x402 = await fixture.gateway();
      const answer = await x402.post({}, { path });
      const [serviceId, jobIndex] = path.split("/").slice(3).map(Number);
      expect(answer.status).toBe(404);
      expect(answer.json()).toMatchObject({
        error: "job not found",
        code: "job.not_found",
        service_id: serviceId,
        job_index: jobIndex,
      });
      expect(answer.headers["payment-required"]).toBeUndefined();
    },
  );
});

describe("409", () => {
  const proxy = useRedisProxy(fixture.redis);

  /** Makes a quote and a payment that has used it up. */
  async function usedQuote() {
    const x402 = await fixture.gateway(honouringQuotes);
    const { header } = signQuote(quoteOf(fixture.payer));
    const payment = await signOffer(await x402.post(header), { payer: fixture.payer });
    expect((await x402.post({ ...header, ...payment })).status).toBe(202);
    expect(await fixture.charged()).toEqual([QUOTED]);
    return { x402, header };
  }

  test("an unpaid request with a used operator's quote is refused with 409 on every replica and without offers", async () => {
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

  onlyInLongRun(() => {
    test("while Redis does not answer, an unpaid request with a used quote gets a 402, and the claim refuses the quote", async () => {
      const { header } = await usedQuote();
      const x402 = await fixture.gateway(behindProxy());
      proxy.onCommand = (words) => (isLook(words) ? { kind: "hang" } : undefined);
      expect((await x402.post(header)).status).toBe(402);
    });
  });

  test("Redis is read only for an unpaid request with a valid quote, to check whether the quote was used", async () => {
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
});

describe("410", () => {
  test("an unpaid request with an operator's quote that has expired is refused with 410, and offered no other price", async () => {
    const x402 = await fixture.gateway(honouringQuotes);
    const expiry = BigInt(Math.floor(Date.now() / 1000) - 1);
    const answer = await x402.post(signQuote(quoteOf(fixture.payer, { expiry })).header);
    expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  });
});

describe("503", () => {
  const ends = useEnds();

  test("an unpaid request is 503 without offers while no token has a rate", async () => {
    const x402 = await fixture.gateway({ token: rateless });
    const answer = await x402.post();
    expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.headers["payment-required"]).toBeUndefined();
  });

  test("a job whose tokens no facilitator supports is 503 without offers", async () => {
    const its = await startFaultyFacilitator();
    ends.defer(() => its.close());
    its.on("supported", answerJson({ kinds: [{ x402Version: 2, scheme: "exact", network: "eip155:1" }] }));
    const x402 = await fixture.gateway({ x402: { facilitator_url: its.url } });
    const answer = await x402.post();
    expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.headers["payment-required"]).toBeUndefined();
    const { network, token: asset } = fixture.devnet;
    expect(x402.log.events).toContainEqual({
      event: "token.unsupported",
      fields: { network, asset, symbol: "USDC" },
    });
  });
});
