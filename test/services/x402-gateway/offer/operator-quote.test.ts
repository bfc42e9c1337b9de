import type { PaymentRequirements } from "@x402/core/types";
import { generatePrivateKey } from "viem/accounts";
import { beforeEach, describe, expect, test } from "vitest";
import { createSigner } from "../../../../shared/chain/signatures.ts";
import { domainSeparator } from "../../../../shared/chain/typed-data.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { type JobQuote, jobQuoteDigest, toQuoteJson } from "../../../../shared/pricing/job-quote.ts";
import { inTime, JOB_PATH, type TestX402, useX402, withoutPayerFields } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { signPayment, signPaymentV1 } from "../../../support/sign-payment.ts";
import {
  DOMAIN,
  honouringQuotes,
  operator,
  QUOTED,
  QUOTED_WEI,
  quoteOf,
  type SignedQuote,
  signQuote,
} from "../operator-quotes.ts";

const fixture = useX402();

const now = () => BigInt(Math.floor(Date.now() / 1000));
const quoteFor = (change: Partial<JobQuote> = {}) => quoteOf(fixture.payer, change);

const codeAt = async (x402: TestX402, headers: Record<string, string>, body = "hello", path = JOB_PATH) => {
  const answer = await x402.post(headers, { body, path });
  return [answer.status, answer.json()["code"]];
};

async function offersIn(x402: TestX402, headers: Record<string, string>) {
  const answer = await x402.post(headers);
  expect(answer.status).toBe(402);
  const header = String(answer.headers["payment-required"]);
  const v2 = JSON.parse(Buffer.from(header, "base64").toString()).accepts as PaymentRequirements[];
  return { v2, v1: answer.json<{ accepts: Parameters<typeof signPaymentV1>[0][] }>().accepts };
}

async function payBy(
  x402: TestX402,
  { header }: SignedQuote,
  payer = fixture.payer,
): Promise<Record<string, string>> {
  const [offer] = (await offersIn(x402, header)).v2;
  const signed = await signPayment(offer as PaymentRequirements, inTime({ payer }));
  return { ...header, "PAYMENT-SIGNATURE": signed.header };
}

let x402: TestX402;
beforeEach(async () => {
  x402 = await fixture.gateway(honouringQuotes);
});

describe("an operator's quote", () => {
  test("an operator's quote is offered at its price until it expires, and bought once, by its requester", async () => {
    const quote = quoteFor({ expiry: now() + 60n });
    const signed = signQuote(quote);
    const [offer] = (await offersIn(x402, signed.header)).v2;
    expect(offer).toMatchObject({
      amount: String(QUOTED),
      extra: { quoteDigest: signed.digest, quoteExpiry: Number(quote.expiry) },
    });
    const headers = await payBy(x402, signed);
    const second = await payBy(x402, signed);
    const answer = await x402.post(headers);
    expect(answer.status).toBe(202);
    expect(answer.json()["receipt"]).toMatchObject({ amount: String(QUOTED), quote_digest: signed.digest });
    const [call] = await x402.waiting();
    expect(call?.metadata["X-X402-QUOTE-DIGEST"]).toBe(signed.digest);
    expect(JSON.stringify(call?.metadata)).not.toContain("X-PLATFORM-QUOTE");
    expect(await fixture.charged()).toEqual([QUOTED]);

    expect(await codeAt(x402, second)).toEqual([409, "quote.used"]);
    expect(await codeAt(x402, signed.header)).toEqual([409, "quote.used"]);
    // A repeat of the payment is not a second use of the quote, and does not need the quote.
    const again = await x402.post({ "PAYMENT-SIGNATURE": String(headers["PAYMENT-SIGNATURE"]) });
    expect([again.status, again.text]).toEqual([202, withoutPayerFields(answer)]);
    expect(await fixture.charged()).toEqual([QUOTED]);
  });

  onlyInLongRun(() => {
    test("an operator's quote is bought by a version 1 payment, at its price and with its digest", async () => {
      const signed = signQuote(quoteFor());
      const [offer] = (await offersIn(x402, signed.header)).v1;
      if (offer === undefined) throw new Error("there is no offer of version 1");
      expect(offer.maxAmountRequired).toBe(String(QUOTED));
      const payment = await signPaymentV1(offer, inTime({ payer: fixture.payer }));
      const answer = await x402.post({ ...signed.header, "X-PAYMENT": payment.header });
      expect(answer.status).toBe(202);
      const [call] = await x402.waiting();
      expect(call?.metadata["X-X402-QUOTE-DIGEST"]).toBe(signed.digest);
      expect(await fixture.charged()).toEqual([QUOTED]);
    });
  });

  test("an operator's quote that is used ten times at once, on two replicas, is charged once for one job", async () => {
    const other = await fixture.gateway(honouringQuotes);
    const signed = signQuote(quoteFor());
    const payments = await Promise.all(Array.from({ length: 10 }, () => payBy(x402, signed)));
    const answers = await Promise.all(payments.map((headers, i) => [x402, other][i % 2]?.post(headers)));
    expect(answers.map((answer) => answer?.status).sort()).toEqual([202, ...Array(9).fill(409)]);
    expect(await fixture.charged()).toEqual([QUOTED]);
  });

  onlyInLongRun(() => {
    test("an operator's quote can be used again once the payment that used it is void", async () => {
      const trusting = await fixture.gateway({
        ...honouringQuotes,
        x402: { ...honouringQuotes.x402, trust_facilitator: true },
        token: { rpc_url: undefined as never },
        early: true,
      });
      await eventually("its facilitator is known", () => {
        const { ready, checks } = trusting.gateway.readiness();
        return ready && (checks["facilitators"] as { ok: boolean }[]).every(({ ok }) => ok);
      });
      const signed = signQuote(quoteFor());
      await fixture.devnet.control.fault({
        on: "settle",
        kind: "refuse",
        reason: "insufficient_funds",
        times: 1,
      });
      expect(await codeAt(trusting, await payBy(trusting, signed))).toEqual([402, "payment.rejected"]);
      expect((await trusting.post(await payBy(trusting, signed))).status).toBe(202);
      expect(await fixture.charged()).toEqual([QUOTED]);
    });
  });
});

describe("a quote that is not accepted", () => {
  const refused: Record<string, [() => SignedQuote, number, string]> = {
    "that an unknown key signed": [
      () => signQuote(quoteFor(), { by: createSigner(generatePrivateKey()) }),
      403,
      "quote.rejected",
    ],
    "that has expired": [() => signQuote(quoteFor({ expiry: now() - 1n })), 410, "quote.expired"],
    "that is not a quote": [
      () => ({ header: { "X-PLATFORM-QUOTE": "e30=" }, digest: "" }),
      400,
      "quote.malformed",
    ],
    "for another domain": [
      () => signQuote(quoteFor(), { domain: { ...DOMAIN, chainId: 1 } }),
      403,
      "quote.rejected",
    ],
    "for another job": [() => signQuote(quoteFor({ jobIndex: 8 })), 403, "quote.rejected"],
    "for another service": [() => signQuote(quoteFor({ serviceId: 2n })), 403, "quote.rejected"],
    "that is dated in the future": [
      () => signQuote(quoteFor({ timestamp: now() + 120n })),
      403,
      "quote.rejected",
    ],
    "that is valid for too long": [
      () => signQuote(quoteFor({ expiry: now() + 31n * 86_400n })),
      403,
      "quote.rejected",
    ],
    "that is empty": [() => ({ header: { "X-PLATFORM-QUOTE": "" }, digest: "" }), 400, "quote.malformed"],
  };
  const rows = Object.entries(refused).map(([name, [make, ...said]]) => [name, ...said, make] as const);
  test.each(sample(rows, 3))(
    "an operator's quote %s is refused with %i %s, with a payment or without",
    async (_name, status, code, make) => {
      const { header } = make();
      const payment = await x402.pay({ payer: fixture.payer });
      expect(await codeAt(x402, header)).toEqual([status, code]);
      expect(await codeAt(x402, { ...header, ...payment })).toEqual([status, code]);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    },
  );

  const fields: Record<string, (details: Record<string, string>) => void> = {
    requester: (details) => Object.assign(details, { requester: `0x${"11".repeat(20)}` }),
    price: (details) => Object.assign(details, { price: "1" }),
    timestamp: (details) => Object.assign(details, { timestamp: String(now() - 5n) }),
    expiry: (details) => Object.assign(details, { expiry: String(now() + 299n) }),
    confidentiality: (details) => Object.assign(details, { confidentiality: "1" }),
    inputs_hash: (details) => Object.assign(details, { inputs_hash: `0x${"22".repeat(32)}` }),
  };
  test.each(sample(Object.entries(fields)))(
    "an operator's quote whose %s was changed is refused with 403",
    async (_name, change) => {
      const quote = quoteFor();
      const digest = jobQuoteDigest(domainSeparator(DOMAIN), quote);
      const json = toQuoteJson({ quote, signature: `0x${operator.sign(digest).toString("hex")}` });
      change(json.details as unknown as Record<string, string>);
      const header = { "X-PLATFORM-QUOTE": Buffer.from(JSON.stringify(json)).toString("base64") };
      expect(await codeAt(x402, header)).toEqual([403, "quote.rejected"]);
    },
  );

  test("an operator's quote whose price is below a token's smallest unit is refused with 403", async () => {
    expect(await codeAt(x402, signQuote(quoteFor({ priceWei: 0n })).header)).toEqual([403, "quote.rejected"]);
  });

  test("a gateway that accepts no quotes refuses a quote with 403", async () => {
    const plain = await fixture.gateway();
    expect(await codeAt(plain, signQuote(quoteFor()).header)).toEqual([403, "quote.rejected"]);
  });

  test("an operator's quote is refused with 403 if its requester is not the payer, or if it was made for another body", async () => {
    const signed = signQuote(quoteFor());
    const stranger = await newPayer(fixture.devnet);
    expect(await codeAt(x402, await payBy(x402, signed, stranger))).toEqual([403, "quote.rejected"]);
    expect(await codeAt(x402, await payBy(x402, signed), "jello")).toEqual([403, "quote.rejected"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged(stranger)).toEqual([]);
  });
});

onlyInLongRun(() => {
  test("a quote is read from the header of the configured prefix or from the default one, and is refused if both have one", async () => {
    const branded = await fixture.gateway({ ...honouringQuotes, metadataPrefix: "X-ACME" });
    const { header, digest } = signQuote(quoteFor());
    const { "X-PLATFORM-QUOTE": value = "" } = header;
    for (const name of ["X-ACME-QUOTE", "X-PLATFORM-QUOTE"]) {
      const [offer] = (await offersIn(branded, { [name]: value })).v2;
      expect(offer?.extra["quoteDigest"]).toBe(digest);
    }
    const both = { "X-ACME-QUOTE": value, "X-PLATFORM-QUOTE": value };
    expect(await codeAt(branded, both)).toEqual([400, "quote.malformed"]);
  });
});

test("a payment of an offer at a quote's price is refused without the quote, and a payment at the list price is refused with a quote", async () => {
  const signed = signQuote(quoteFor());
  const { "PAYMENT-SIGNATURE": cheap = "" } = await payBy(x402, signed);
  expect(await codeAt(x402, { "PAYMENT-SIGNATURE": cheap })).toEqual([402, "payment.not_offered"]);
  const listed = await x402.pay({ payer: fixture.payer });
  expect(await codeAt(x402, { ...signed.header, ...listed })).toEqual([402, "payment.not_offered"]);
  const another = signQuote(quoteFor({ priceWei: QUOTED_WEI / 2n }));
  expect(await codeAt(x402, { ...another.header, "PAYMENT-SIGNATURE": cheap })).toEqual([
    402,
    "payment.not_offered",
  ]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

onlyInLongRun(() => {
  test("a payment without our own quote buys at an operator's quote: at its price, for its requester and body, once", async () => {
    const signed = signQuote(quoteFor());
    const bare = async (payer = fixture.payer, amount = String(QUOTED)) => {
      const [offer] = (await offersIn(x402, signed.header)).v2;
      const extra = { name: "USDC", version: "2" };
      const accepted = { ...(offer as PaymentRequirements), amount, extra };
      const { header } = await signPayment(accepted, inTime({ payer }));
      return { ...signed.header, "PAYMENT-SIGNATURE": header };
    };
    const [first, second, cheaper] = [await bare(), await bare(), await bare(fixture.payer, "1")];
    const strangers = await bare(await newPayer(fixture.devnet));
    expect(await codeAt(x402, cheaper)).toEqual([402, "payment.not_offered"]);
    expect(await codeAt(x402, strangers)).toEqual([403, "quote.rejected"]);
    expect(await codeAt(x402, first, "jello")).toEqual([403, "quote.rejected"]);
    const withoutIt = { "PAYMENT-SIGNATURE": first["PAYMENT-SIGNATURE"] ?? "" };
    expect(await codeAt(x402, withoutIt)).toEqual([402, "payment.not_offered"]);
    const answer = await x402.post(first);
    expect([answer.status, answer.json<{ receipt: object }>().receipt]).toMatchObject([
      202,
      { amount: String(QUOTED), quote_digest: signed.digest },
    ]);
    expect(await codeAt(x402, second)).toEqual([409, "quote.used"]);
    expect(await fixture.charged()).toEqual([QUOTED]);
  });

  test("with a known identifier a new quote buys nothing more, and a quote that another purchase used is refused with 409", async () => {
    const [first, unused, used] = [
      signQuote(quoteFor()),
      signQuote(quoteFor({ priceWei: 2n * QUOTED_WEI })),
      signQuote(quoteFor({ priceWei: QUOTED_WEI / 2n })),
    ];
    const named = async (quote: SignedQuote) => ({
      ...(await payBy(x402, quote)),
      "Idempotency-Key": "order_0123456789abcdef",
    });
    const [again, contradicting] = [await named(unused), await named(used)];
    const bought = await x402.post(await named(first));
    expect((await x402.post(await payBy(x402, used))).status).toBe(202);
    const repeat = await x402.post(again);
    expect([repeat.status, repeat.headers["idempotent-replayed"], repeat.text]).toEqual([
      202,
      "true",
      withoutPayerFields(bought),
    ]);
    expect(await codeAt(x402, contradicting)).toEqual([409, "payment.identifier_conflict"]);
    expect(await fixture.charged()).toEqual([QUOTED, QUOTED / 2n]);
    expect((await x402.post(await payBy(x402, unused))).status).toBe(202);
  });
});
