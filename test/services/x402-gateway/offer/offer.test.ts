import type { PaymentRequirements } from "@x402/core/types";
import { describe, expect, test } from "vitest";
import {
  idIn,
  inTime,
  JOB_PATH,
  PRICE,
  PUBLIC_URL,
  requiredIn,
  type TestX402,
  useX402,
} from "../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { signPermit2Payment } from "../../../support/permit2.ts";
import {
  encodeHeader,
  type PaymentChoice,
  signPayment,
  signPaymentV1,
} from "../../../support/sign-payment.ts";
import { declaring, FITS } from "../job-inputs.ts";
import { approvedPayer, permit2Token } from "../permit2-gateway.ts";

const fixture = useX402();
const OTHER = "0x2222222222222222222222222222222222222222";
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const now = () => BigInt(Math.floor(Date.now() / 1000));

async function offerOf(x402: TestX402, path = JOB_PATH): Promise<PaymentRequirements> {
  return (await x402.ask(path)).v2.accepts[0] as PaymentRequirements;
}

/** Expects a refusal with this code and a new offer. No facilitator is called, and a repeat is refused in the same way. */
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

/** Changes of the accepted offer. The payment is also signed for the changed terms. */
const lies: Record<string, Change> = {
  "a lower amount": () => ({ amount: "1" }),
  "no MAC": inExtra({ quoteMac: undefined }),
  "another asset": () => ({ asset: OTHER }),
  "another recipient": () => ({ payTo: OTHER }),
  "another network": () => ({ network: "eip155:1" }),
  "a later expiry": inExtra({ quoteExpiry: 4_102_444_800 }),
  "a higher amount": () => ({ amount: "3200001" }),
  "an amount in another form": () => ({ amount: "03200000" }),
  "the asset in other letters": ({ asset }) => ({ asset: asset.toLowerCase() }),
  "the recipient in other letters": ({ payTo }) => ({ payTo: payTo.toLowerCase() }),
  "another time-out": () => ({ maxTimeoutSeconds: 3600 }),
  "another scheme": () => ({ scheme: "upto" }),
  "a network that is not a chain": () => ({ network: "solana:101" }),
  "another digest": inExtra({ quoteDigest: `0x${"0".repeat(64)}` }),
  "an expiry that is not a number": inExtra({ quoteExpiry: "4102444800" }),
  "another MAC": inExtra({ quoteMac: "A".repeat(43) }),
  "another name of the token": inExtra({ name: "USD Coin" }),
  "another version of the token": inExtra({ version: "1" }),
  "null in place of its quote": inExtra({ quoteDigest: null, quoteExpiry: null, quoteMac: null }),
  "payment after the job": inExtra({ paymentFlow: "authorization" }),
  "payment into escrow": inExtra({ paymentFlow: "escrow" }),
  "no digest": inExtra({ quoteDigest: undefined }),
  "no expiry": inExtra({ quoteExpiry: undefined }),
  "a MAC without the rest": inExtra({ quoteDigest: undefined, quoteExpiry: undefined }),
};

describe("the payment flow", () => {
  const flows = { named: {}, unnamed: { offer_payment_flow: false } };
  const ways: [string, keyof typeof flows, keyof typeof flows, object][] = [
    ["as offered", "named", "named", {}],
    ["as offered before the switch", "unnamed", "named", {}],
    ["as offered before a switch back", "named", "unnamed", {}],
    ["without the flow that was offered", "named", "named", { paymentFlow: undefined }],
    ["with null in place of the flow", "named", "named", { paymentFlow: null }],
  ];
  test.each(sample(ways, 2))(
    "a payment %s is accepted under the signed terms, and the facilitator gets the flow that the payment accepts",
    async (_what, before, after, change) => {
      const first = await fixture.gateway({ x402: flows[before] });
      const offer = await offerOf(first);
      expect(offer.extra["paymentFlow"]).toBe(before === "named" ? "upfront" : undefined);
      expect((await first.ask()).v1[0]?.extra).not.toHaveProperty("paymentFlow");
      const { payload } = await signPayment(offer, inTime({ payer: fixture.payer }));
      const accepted = { ...offer, extra: { ...offer.extra, ...change } };
      await fixture.stop(first);
      const second = await fixture.gateway({ x402: flows[after] });
      const answer = await second.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted }) });
      expect(answer.status).toBe(202);
      const asked = (await second.journal.find(idIn(answer)))?.request?.paymentRequirements as Asked;
      expect(asked.extra["paymentFlow"] ?? null).toBe(accepted.extra["paymentFlow"] ?? null);
      const digest = answer.json<{ receipt: { quote_digest: string } }>().receipt.quote_digest;
      expect(digest).toBe(offer.extra["quoteDigest"]);
      expect(await fixture.charged()).toEqual([PRICE]);
    },
  );

  type Asked = { extra: Record<string, unknown> };
});

describe("a payment that accepts what was not offered", () => {
  test.each(sample(Object.entries(lies), 2))(
    "a payment that accepts %s is refused with 402, and no facilitator is asked",
    async (_name, change) => {
      const x402 = await fixture.gateway();
      const offer = await offerOf(x402);
      const accepted = { ...offer, ...change(offer) };
      // The payment is also signed for the true offer, so that the signature is not the reason for the refusal.
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

  onlyInLongRun(() => {
    test("a payment whose extra lacks members of the offer is refused as malformed, and one with additional members is accepted", async () => {
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

    test("a payment with another seller's quote, signed with another secret, is refused as not offered", async () => {
      const x402 = await fixture.gateway();
      const shop = await fixture.gateway({ x402: { quote_secret: "the secret of another shop" } });
      await expectRefused(x402, await shop.pay({ payer: fixture.payer }), "payment.not_offered");
    });

    test("a payment with the quote of a gateway at another public URL is refused as not offered, although both have the same secret", async () => {
      const x402 = await fixture.gateway();
      const elsewhere = await fixture.gateway({ x402: { public_url: "https://elsewhere.test" } });
      const { payload } = await signPayment(await offerOf(elsewhere), inTime({ payer: fixture.payer }));
      const { resource: _, ...without } = payload;
      await expectRefused(x402, { "PAYMENT-SIGNATURE": encodeHeader(without) }, "payment.not_offered");
      expect((await elsewhere.post({ "PAYMENT-SIGNATURE": encodeHeader(without) })).status).toBe(202);
    });
  });

  const OTHER_RESOURCES = [
    `${PUBLIC_URL}/x402/jobs/1/8`,
    `${PUBLIC_URL}${JOB_PATH}/../8`,
    `${PUBLIC_URL}/x402/jobs/1/8?to=${JOB_PATH}`,
    "",
    PUBLIC_URL,
    `${PUBLIC_URL}/x402/jobs/1/77`,
    `${PUBLIC_URL}/x402/jobs/1/7/8`,
    `${PUBLIC_URL}/x402/jobs/11/7`,
    `${PUBLIC_URL}/jobs/1/7`,
    `${PUBLIC_URL}${JOB_PATH}//`,
    `${PUBLIC_URL}/x402/jobs/1/%37`,
    `${PUBLIC_URL}/x402%2fjobs/1/7`,
    `${PUBLIC_URL}${JOB_PATH}/%2e%2e/8`,
    `${PUBLIC_URL}/x402/jobs/1/8#${JOB_PATH}`,
    "http://x402/jobs/1/7",
    `${PUBLIC_URL}:port${JOB_PATH}`,
    `mailto:x${JOB_PATH.slice(1)}`,
  ];
  test.each(sample(OTHER_RESOURCES))(
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

  const SAME_RESOURCE = [
    `http://other.test:8402${JOB_PATH}`,
    `${PUBLIC_URL}${JOB_PATH}?network=eip155:84532`,
    `${PUBLIC_URL}${JOB_PATH}/?a=/x402/jobs/1/8`,
    `https://proxy.test/prefix${JOB_PATH}/`,
    JOB_PATH,
  ];
  test.each(sample(SAME_RESOURCE))(
    "a payment for the resource %s is accepted, and the facilitator gets our own resource",
    async (url) => {
      const x402 = await fixture.gateway();
      const resource = { url, description: "theirs", note: 1 };
      const bazaar = { info: { input: { type: "http" } }, routeTemplate: "/theirs/:of" };
      const extensions = { bazaar, other: { info: 1 } };
      const answer = await x402.post(
        await x402.pay({ payer: fixture.payer }, { resource, extensions } as never),
      );
      expect(answer.status).toBe(202);
      const request = (await x402.journal.find(idIn(answer)))?.request;
      expect(request?.paymentPayload).toMatchObject({
        resource: (await x402.ask()).v2.resource,
        extensions: { other: { info: 1 } },
      });
      expect(JSON.stringify(request)).not.toContain("theirs");
    },
  );
});

test("a facilitator gets the job's own bazaar extension, even if the payment has another one", async () => {
  const x402 = await fixture.gateway(declaring);
  const { bazaar } = (await x402.ask()).v2.extensions as { bazaar: object };
  const theirs = { ...bazaar, routeTemplate: "/theirs/:of" };
  const headers = await x402.pay({ payer: fixture.payer }, { extensions: { bazaar: theirs } } as never);
  const request = (await x402.journal.find(idIn(await x402.post(headers, { body: FITS }))))?.request;
  expect(request?.paymentPayload).toMatchObject({ extensions: { bazaar } });
  expect(JSON.stringify(request)).not.toContain("theirs");
});

onlyInLongRun(() => {
  test("a facilitator gets no extensions of a version 1 payment, whose job its requirements describe", async () => {
    const x402 = await fixture.gateway();
    const [offer] = (await x402.ask()).v1;
    const { payload } = await signPaymentV1(offer as never, inTime({ payer: fixture.payer }));
    const extensions = { bazaar: { routeTemplate: "/theirs/:of" } };
    const sent = { ...payload, extensions, resource: "https://theirs.test" };
    const answer = await x402.post({ "X-PAYMENT": encodeHeader(sent) });
    expect(answer.status).toBe(202);
    expect(JSON.stringify((await x402.journal.find(idIn(answer)))?.request)).not.toContain("theirs");
  });
});

describe("a payment without a quote", () => {
  const UNQUOTED = { name: "USDC", version: "2" };
  /** A payment of today's offer, with these changes and without a quote. By default, it is signed for what it accepts. */
  async function unquoted(x402: TestX402, change: object = {}, extra: object = {}) {
    const offer = await offerOf(x402);
    const accepted = { ...offer, ...change, extra: { ...UNQUOTED, ...extra } };
    const { payload } = await signPayment(accepted, inTime({ payer: fixture.payer, ...UNQUOTED }));
    return { "PAYMENT-SIGNATURE": encodeHeader(payload) };
  }

  test("a payment without a quote is accepted at today's price, and the facilitator gets an offer without a quote", async () => {
    const x402 = await fixture.gateway();
    const headers = await unquoted(x402, {}, { fee: null });
    const [first, again] = [await x402.post(headers), await x402.post(headers)];
    expect([first.status, again.status]).toEqual([202, 202]);
    const request = (await x402.journal.find(idIn(first)))?.request;
    expect(request?.paymentRequirements).toEqual({ ...(await offerOf(x402)), extra: UNQUOTED });
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  const others: Record<string, [object, object?]> = {
    "at a lower price": [{ amount: String(PRICE - 1n) }],
    "to another recipient": [{ payTo: OTHER }],
    "with a MAC": [{}, { quoteMac: "A".repeat(43) }],
    "at a higher price": [{ amount: String(PRICE + 1n) }],
    "for another time": [{ maxTimeoutSeconds: 121 }],
    "with another transfer method": [{}, { assetTransferMethod: "permit2", name: "USD Coin" }],
    "with another name of the token": [{}, { name: "USD Coin" }],
    "with another version of the token": [{}, { version: "1" }],
    "without the token's name": [{}, { name: undefined }],
    "with a digest": [{}, { quoteDigest: `0x${"0".repeat(64)}` }],
    "with an expiry": [{}, { quoteExpiry: 4_102_444_800 }],
    "with a MAC of null": [{}, { quoteMac: null }],
  };
  test.each(sample(Object.entries(others)))(
    "a payment without a quote %s is refused as not offered",
    async (_what, [change, extra]) => {
      const x402 = await fixture.gateway();
      await expectRefused(x402, await unquoted(x402, change, extra), "payment.not_offered");
    },
  );

  onlyInLongRun(() => {
    test("a payment with only the MAC, digest or expiry of a real quote is refused as not offered", async () => {
      const x402 = await fixture.gateway();
      const { extra } = await offerOf(x402);
      for (const name of ["quoteMac", "quoteDigest", "quoteExpiry"])
        await expectRefused(x402, await unquoted(x402, {}, { [name]: extra[name] }), "payment.not_offered");
    });
  });

  test("after a price change a quote still buys at its own price, and a payment without a quote is refused", async () => {
    const before = await fixture.gateway();
    const [quoted, bare] = [await before.pay({ payer: fixture.payer }), await unquoted(before)];
    const bought = await unquoted(before);
    const first = await before.post(bought);
    expect(first.status).toBe(202);
    await fixture.stop(before);
    const after = await fixture.gateway({ prices: { "7": "2000000000000000" } });
    const refused = await after.post(bare);
    expect([refused.status, refused.json()["code"]]).toEqual([402, "payment.not_offered"]);
    expect(requiredIn(refused).accepts[0]?.amount).toBe(String(2n * PRICE));
    expect((await after.post(quoted)).status).toBe(202);
    const again = await after.post(bought);
    expect([again.status, idIn(again)]).toEqual([202, idIn(first)]);
    expect(await fixture.charged()).toEqual([PRICE, PRICE]);
  });

  onlyInLongRun(() => {
    test("a payment without a quote buys any job of its price, once, and no job of another price", async () => {
      const prices = { "7": "1000000000000000", "8": "1000000000000000", "9": "2000000000000000" };
      const x402 = await fixture.gateway({ prices });
      const headers = await unquoted(x402);
      const dearer = await x402.post(headers, { path: "/x402/jobs/1/9" });
      expect([dearer.status, dearer.json()["code"]]).toEqual([402, "payment.not_offered"]);
      expect((await x402.post(headers, { path: "/x402/jobs/1/8" })).status).toBe(202);
      expect((await x402.post(headers)).json()["code"]).toBe("payment.conflict");
      expect(await fixture.charged()).toEqual([PRICE]);
    });

    test("a payment by Permit2 without a quote is accepted if it names the method, and refused otherwise", async () => {
      const { devnet } = fixture;
      const x402 = await fixture.gateway({ token: permit2Token(devnet, "usdt") });
      const payer = await approvedPayer(fixture, "usdt");
      const offer = await offerOf(x402);
      const deadline = BigInt(Math.floor(Date.now() / 1000) + 120);
      const method = { assetTransferMethod: "permit2" };
      const { payload } = await signPermit2Payment({ ...offer, extra: method }, { payer, deadline });
      const post = (extra: object) =>
        x402.post({ "PAYMENT-SIGNATURE": encodeHeader({ ...payload, accepted: { ...offer, extra } }) });
      expect((await post({})).json()["code"]).toBe("payment.not_offered");
      expect((await post({ assetTransferMethod: "eip3009" })).json()["code"]).toBe("payment.not_offered");
      fixture.payer = payer as typeof fixture.payer;
      expect((await post(method)).status).toBe(202);
    });
  });
});

describe("a payment that authorizes what it does not accept", () => {
  const choices: Record<string, [Partial<PaymentChoice>, string]> = {
    "less than the price": [{ value: PRICE - 1n }, "payment.not_offered"],
    "a transfer in another token's domain": [{ name: "USD Coin" }, "payment.signature_invalid"],
    "another payer's account": [{ to: OTHER }, "payment.not_offered"],
    "a start in the future": [{ validAfter: now() + 3600n }, "payment.window_unusable"],
    "an end in the past": [{ validBefore: now() - 1n }, "payment.window_unusable"],
    "more than the price": [{ value: PRICE + 1n }, "payment.not_offered"],
    "an end before it could settle": [{ validBefore: now() + 8n }, "payment.window_unusable"],
    "an end a year from now": [{ validBefore: now() + 31_536_000n }, "payment.window_unusable"],
    "the largest possible end": [{ validBefore: 2n ** 256n - 1n }, "payment.window_unusable"],
  };
  test.each(sample(Object.entries(choices), 2))(
    "a payment that authorizes %s is refused with 402 in both versions",
    async (_name, [choice, code]) => {
      const x402 = await fixture.gateway();
      await expectRefused(x402, await x402.pay({ payer: fixture.payer, ...choice }), code);
      await expectRefused(x402, await x402.payV1({ payer: fixture.payer, ...choice }), code);
    },
  );

  const within = { payment_window_secs_max: 180 };
  const LASTING: readonly [string, Record<string, number>, () => Partial<PaymentChoice>][] = [
    ["for an hour, as the official Go client signs", {}, () => ({ validBefore: now() + 3600n })],
    ["for the offered time by a clock 32 s ahead", {}, () => ({ validBefore: now() + 32n + 120n })],
    [
      "for that time with a small payment_window_secs_max",
      within,
      () => ({ validBefore: now() + 32n + 120n }),
    ],
    ["from ten minutes ago on", {}, () => ({ validAfter: now() - 600n, validBefore: now() + 120n })],
  ];
  test.each(sample(LASTING))(
    "a payment that is valid %s is accepted in both versions",
    async (_name, x402, choice) => {
      const gateway = await fixture.gateway({ x402 });
      for (const pay of ["pay", "payV1"] as const)
        expect((await gateway.post(await gateway[pay]({ payer: fixture.payer, ...choice() }))).status).toBe(
          202,
        );
      expect(await fixture.charged()).toEqual([PRICE, PRICE]);
    },
  );

  test("a payment that is valid for longer than payment_window_secs_max is refused, whatever the offer says", async () => {
    const x402 = await fixture.gateway({ x402: within });
    const headers = await x402.pay({ payer: fixture.payer, validBefore: now() + 200n });
    await expectRefused(x402, headers, "payment.window_unusable");
  });

  test("a payment that becomes valid now by a clock 32 s ahead is refused, because the chain would not accept it yet", async () => {
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

  test("a version 1 payment with another price, scheme or network name is refused as not offered", async () => {
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
