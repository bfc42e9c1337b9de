import type { PaymentRequirements } from "@x402/core/types";
import { describe, expect, test } from "vitest";
import {
  inTime,
  JOB_PATH,
  PRICE,
  PUBLIC_URL,
  requiredIn,
  type TestX402,
  useX402,
} from "../../../fixtures/x402.ts";
import {
  encodeHeader,
  type PaymentChoice,
  signPayment,
  signPaymentV1,
} from "../../../support/sign-payment.ts";

const fixture = useX402();
const OTHER = "0x2222222222222222222222222222222222222222";
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const now = () => BigInt(Math.floor(Date.now() / 1000));

async function offerOf(x402: TestX402, path = JOB_PATH): Promise<PaymentRequirements> {
  return (await x402.ask(path)).v2.accepts[0] as PaymentRequirements;
}

/** Refused with this code, a new offer, and not a word to any facilitator; and it stays a payment that was never taken. */
async function expectRefused(x402: TestX402, headers: Record<string, string>, code: string): Promise<void> {
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, code]);
  expect(requiredIn(answer).error).toMatch(new RegExp(`^${code}: `));
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect(await fixture.charged()).toEqual([]);
}

type Change = (offer: PaymentRequirements) => Partial<PaymentRequirements>;
const inExtra =
  (extra: Record<string, unknown>): Change =>
  (offer) => ({ extra: { ...offer.extra, ...extra } });

/** Signed as the change says: the payer agrees with the lie. */
const lies: Record<string, Change> = {
  "a lower amount": () => ({ amount: "1" }),
  "a higher amount": () => ({ amount: "3200001" }),
  "an amount of another form": () => ({ amount: "03200000" }),
  "another asset": () => ({ asset: OTHER }),
  "the asset in other letters": ({ asset }) => ({ asset: asset.toLowerCase() }),
  "another recipient": () => ({ payTo: OTHER }),
  "the recipient in other letters": ({ payTo }) => ({ payTo: payTo.toLowerCase() }),
  "another time-out": () => ({ maxTimeoutSeconds: 3600 }),
  "another scheme": () => ({ scheme: "upto" }),
  "another network": () => ({ network: "eip155:1" }),
  "a network of no chain": () => ({ network: "solana:101" }),
  "another digest": inExtra({ quoteDigest: `0x${"0".repeat(64)}` }),
  "a later expiry": inExtra({ quoteExpiry: 4_102_444_800 }),
  "an expiry that is no number": inExtra({ quoteExpiry: "4102444800" }),
  "another MAC": inExtra({ quoteMac: "A".repeat(43) }),
  "no MAC": inExtra({ quoteMac: undefined }),
  "another name of the token": inExtra({ name: "USD Coin" }),
  "another version of the token": inExtra({ version: "1" }),
  "no quote at all": () => ({ extra: { name: "USDC", version: "2" } }),
};

describe("a payment that accepts what was not offered", () => {
  test.each(Object.entries(lies))(
    "a payment that accepts %s is refused with 402, and no facilitator is asked",
    async (_name, change) => {
      const x402 = await fixture.gateway();
      const offer = await offerOf(x402);
      const accepted = { ...offer, ...change(offer) };
      // Signed for the true offer too, lest only the signature be what refuses it.
      for (const signedFor of [accepted, offer]) {
        const { payload } = await signPayment(
          signedFor,
          inTime({ payer: fixture.payer, name: "USDC", version: "2" }),
        );
        const headers = { "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) };
        const answer = await x402.post(headers);
        expect(answer.status).toBe(402);
        expect(answer.json()["code"]).toMatch(/^payment\.(not_offered|signature_invalid|quote_expired)$/);
        expect(answer.headers["payment-required"]).toBeDefined();
      }
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      expect(await fixture.charged()).toEqual([]);
    },
  );

  test("a payment whose extra lacks the offer's is refused as malformed, and one with more than that is taken", async () => {
    const x402 = await fixture.gateway();
    const offer = await offerOf(x402);
    const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
    const { extra, ...bare } = offer;
    await expectRefused(
      x402,
      { "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted: bare }) },
      "payment.malformed",
    );
    const accepted = { ...offer, extra: { ...extra, wallet: "mine" } };
    expect((await x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) })).status).toBe(
      202,
    );
  });

  test("a payment by another job's quote at the same price is refused as not offered", async () => {
    const x402 = await fixture.gateway({ prices: { "7": "1000000000000000", "8": "1000000000000000" } });
    const { header } = await signPayment(
      await offerOf(x402, "/x402/jobs/1/8"),
      inTime({ payer: fixture.payer }),
    );
    await expectRefused(x402, { "PAYMENT-SIGNATURE": header }, "payment.not_offered");
  });

  test("a payment by another shop's quote, signed with another secret, is refused as not offered", async () => {
    const x402 = await fixture.gateway();
    const shop = await fixture.gateway({ x402: { quote_secret: "the secret of another shop" } });
    await expectRefused(x402, await shop.pay({ payer: fixture.payer }), "payment.not_offered");
  });

  test("a payment by the quote of a gateway at another public URL is refused as not offered, though both share their secret", async () => {
    const x402 = await fixture.gateway();
    const elsewhere = await fixture.gateway({ x402: { public_url: "https://elsewhere.test" } });
    const { payload } = await signPayment(await offerOf(elsewhere), inTime({ payer: fixture.payer }));
    const { resource: _, ...without } = payload;
    await expectRefused(x402, { "PAYMENT-SIGNATURE": encodeHeader(without) }, "payment.not_offered");
    expect((await elsewhere.post({ "PAYMENT-SIGNATURE": encodeHeader(without) })).status).toBe(202);
  });

  test.each([`${PUBLIC_URL}/x402/jobs/1/8`, `http://other.test${JOB_PATH}`, `${PUBLIC_URL}${JOB_PATH}?a=b`])(
    "a payment for the resource %s is refused as not offered",
    async (url) => {
      const x402 = await fixture.gateway();
      await expectRefused(
        x402,
        await x402.pay({ payer: fixture.payer }, { resource: { url } }),
        "payment.not_offered",
      );
    },
  );
});

describe("a payment that authorizes what it does not accept", () => {
  const choices: Record<string, [Partial<PaymentChoice>, string]> = {
    "less than the price": [{ value: PRICE - 1n }, "payment.not_offered"],
    "more than the price": [{ value: PRICE + 1n }, "payment.not_offered"],
    "somebody else's account": [{ to: OTHER }, "payment.not_offered"],
    "a start in the future": [{ validAfter: now() + 3600n }, "payment.window_unusable"],
    "an end that is past": [{ validBefore: now() - 1n }, "payment.window_unusable"],
    "an end before it could settle": [{ validBefore: now() + 8n }, "payment.window_unusable"],
    "an end a year from now": [{ validBefore: now() + 31_536_000n }, "payment.window_unusable"],
    "an end at no time at all": [{ validBefore: 2n ** 256n - 1n }, "payment.window_unusable"],
    "a transfer in another token's domain": [{ name: "USD Coin" }, "payment.signature_invalid"],
  };
  test.each(Object.entries(choices))(
    "a payment that authorizes %s is refused with 402 in both versions",
    async (_name, [choice, code]) => {
      const x402 = await fixture.gateway();
      await expectRefused(x402, await x402.pay({ payer: fixture.payer, ...choice }), code);
      await expectRefused(x402, await x402.payV1({ payer: fixture.payer, ...choice }), code);
    },
  );

  const within = { payment_window_secs_max: 180 };
  test.each<[string, Record<string, number>, Partial<PaymentChoice>]>([
    ["for an hour, as the official Go client signs", {}, { validBefore: now() + 3600n }],
    ["for the offered time by a clock 32 s ahead", {}, { validBefore: now() + 32n + 120n }],
    ["so, where little more is taken than is offered", within, { validBefore: now() + 32n + 120n }],
    ["from ten minutes ago on", {}, { validAfter: now() - 600n, validBefore: now() + 120n }],
  ])("a payment that is valid %s is taken in both versions", async (_name, x402, choice) => {
    const gateway = await fixture.gateway({ x402 });
    for (const pay of ["pay", "payV1"] as const)
      expect((await gateway.post(await gateway[pay]({ payer: fixture.payer, ...choice }))).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE, PRICE]);
  });

  test("a payment that is valid for longer than payment_window_secs_max is refused, whatever is offered", async () => {
    const x402 = await fixture.gateway({ x402: within });
    const headers = await x402.pay({ payer: fixture.payer, validBefore: now() + 200n });
    await expectRefused(x402, headers, "payment.window_unusable");
  });

  test("a payment whose validity a clock 32 s ahead lets begin now is refused, since the chain would not take it yet", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer, validAfter: now() + 32n });
    await expectRefused(x402, headers, "payment.window_unusable");
  });

  test("a payment whose signature has another form, with a high s for one, is refused with 402", async () => {
    const x402 = await fixture.gateway();
    const { payload, signed } = await signPayment(await offerOf(x402), inTime({ payer: fixture.payer }));
    const [r, s, v] = [
      signed.signature.slice(2, 66),
      signed.signature.slice(66, 130),
      signed.signature.slice(130),
    ];
    const high = (ORDER - BigInt(`0x${s}`)).toString(16).padStart(64, "0");
    for (const signature of [
      `0x${r}${high}${v === "1b" ? "1c" : "1b"}`,
      `0x${r}${s}${v === "1b" ? "00" : "01"}`,
      "0x",
    ]) {
      const header = encodeHeader({ ...payload, payload: { ...signed, signature } });
      await expectRefused(x402, { "PAYMENT-SIGNATURE": header }, "payment.signature_invalid");
    }
  });

  test("a version 1 payment of another price, scheme or name of the network is refused as not offered", async () => {
    const x402 = await fixture.gateway();
    const [offer] = (await x402.ask()).v1;
    for (const change of [{ network: "base" }, { network: "eip155:84532" }, { scheme: "upto" }]) {
      const { payload } = await signPaymentV1(offer as never, inTime({ payer: fixture.payer }));
      await expectRefused(
        x402,
        { "X-PAYMENT": encodeHeader({ ...payload, ...change }) },
        "payment.not_offered",
      );
    }
    const cheaper = await fixture.gateway({ prices: { "7": "500000000000000" } });
    await expectRefused(x402, await cheaper.payV1({ payer: fixture.payer }), "payment.not_offered");
  });
});
