import type { IncomingMessage } from "node:http";
import type { PaymentRequirements } from "@x402/core/types";
import { expect, test } from "vitest";
import type { Job, Token } from "../../../../services/x402-gateway/offer/catalog.ts";
import {
  identifyPayment,
  inAcceptedToken,
  readPayment,
} from "../../../../services/x402-gateway/payment/header.ts";
import { matchOffer } from "../../../../services/x402-gateway/payment/match-offer.ts";
import { eip3009 } from "../../../../services/x402-gateway/schemes/exact/eip3009.ts";
import { domainSeparator } from "../../../../shared/chain/typed-data.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { idIn, JOB_PATH, PRICE, PUBLIC_URL, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { sample } from "../../../support/long-run.ts";
import { encodeHeader } from "../../../support/sign-payment.ts";
import { inItsShape, RECORDED, type Recorded, targetOf } from "../recorded-payments.ts";

const fixture = useX402();

const NAMED = RECORDED.map((each) => [each.client, each.note, each] as const);
/** Members of an offer's `extra` that a client of version 2 need not know. */
const QUOTE_MEMBERS = ["quoteDigest", "quoteExpiry", "quoteMac", "paymentFlow"];

function tokenOf({ network, asset, payTo, extra }: PaymentRequirements): Token {
  const domain = { name: String(extra["name"]), version: String(extra["version"]) };
  const chainId = Number(network.split(":")[1]);
  return {
    ...{
      network,
      chainId,
      asset,
      symbol: "USDC",
      payTo: payTo as `0x${string}`,
      scheme: "exact",
      method: eip3009,
    },
    separator: domainSeparator({ ...domain, chainId, verifyingContract: asset }),
    extra: domain,
    ...{ v1Network: undefined, v1: false },
  };
}

function identified({ payment, offer }: Recorded, token = tokenOf(offer)) {
  const header = encodeHeader(payment);
  const req = { headers: { "payment-signature": header }, rawHeaders: ["PAYMENT-SIGNATURE", header] };
  const distinct = { headersDistinct: { "payment-signature": [header] } };
  return identifyPayment(readPayment({ ...req, ...distinct } as unknown as IncomingMessage), [token]);
}

test.each(NAMED)(
  "the recorded payment of %s, which %s, is signed by its payer",
  (_client, _note, recorded) => {
    const { authorization, signature } = recorded.payment.payload;
    const signed = identified(recorded);
    expect([signed.isSignedByPayer, signed.payer]).toEqual([true, authorization.from.toLowerCase()]);
    const forged = signature.replace(/.$/, (digit) => (digit === "b" ? "c" : "b"));
    const payload = { ...recorded.payment.payload, signature: forged };
    expect(identified({ ...recorded, payment: { ...recorded.payment, payload } }).isSignedByPayer).toBe(
      false,
    );
  },
);

test("the recorded payment without a quote matches the offer of its day, matches no offer at another price, and has expired", () => {
  const recorded = RECORDED.find(({ client }) => client.startsWith("r402")) as Recorded;
  const { offer, payment } = recorded;
  const token = tokenOf(offer);
  const versions = { v1: true, v2: true };
  const soldAt = (amount: bigint) =>
    ({ serviceId: 0, jobIndex: 1, unsupported: [], prices: [{ token, amount, versions }] }) as unknown as Job;
  const settings = {
    publicUrl: "http://127.0.0.1:8402",
    shop: { public_url: "http://127.0.0.1:8402", shop: { name: "127.0.0.1:8402", tags: [] } },
    maxTimeoutSeconds: offer.maxTimeoutSeconds,
    windowSecondsMax: 3660,
    offersFlow: true,
    ttlSeconds: 120,
    macSecrets: [new Secret("another secret")] as [Secret],
    settleTimeoutSeconds: 30,
  };
  const match = (amount: bigint, at: number) => () =>
    matchOffer(inAcceptedToken(identified(recorded, token)), soldAt(amount), settings, {
      quoteAt: at,
      windowAt: at,
    });
  const then = Number(payment.payload.authorization.validBefore) * 1000 - 60_000;
  expect(match(32_000n, then)().request.paymentRequirements).toEqual({
    ...offer,
    extra: { name: "USDC", version: "2" },
  });
  for (const amount of [31_999n, 32_001n])
    expect(match(amount, then)).toThrow(expect.objectContaining({ code: "payment.not_offered" }));
  expect(match(32_000n, Date.now())).toThrow(expect.objectContaining({ code: "payment.window_unusable" }));
});

async function shaped(recorded: Recorded): Promise<[TestX402, Recorded["payment"], string]> {
  const x402 = await fixture.gateway();
  const [offer] = (await x402.ask()).v2.accepts;
  const sent = await inItsShape(recorded, offer as PaymentRequirements, fixture.payer);
  return [x402, sent, targetOf(recorded)];
}

test.each(sample(NAMED))(
  "a payment in the shape of %s, which %s, buys the job once, and the facilitator gets only what was signed and our resource",
  async (_client, _note, recorded) => {
    const [x402, sent, path] = await shaped(recorded);
    const headers = { [recorded.header]: encodeHeader(sent) };
    const first = await x402.post(headers, { path });
    expect([first.status, (await x402.post(headers, { path })).status]).toEqual([202, 202]);
    expect(await fixture.charged()).toEqual([PRICE]);
    const { signature, authorization } = sent.payload;
    const quoted = QUOTE_MEMBERS.filter((name) => name in sent.accepted.extra);
    const { extra } = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
    const request = (await x402.journal.find(idIn(first)))?.request;
    expect(request?.paymentPayload).toHaveProperty("payload", { signature, authorization });
    expect(request?.paymentPayload).toHaveProperty("resource.url", `${PUBLIC_URL}${JOB_PATH}`);
    expect(request?.paymentRequirements).toHaveProperty("extra", {
      ...{ name: extra["name"], version: extra["version"] },
      ...Object.fromEntries(quoted.map((member) => [member, sent.accepted.extra[member]])),
    });
  },
);

test.each(sample(NAMED))(
  "a payment in the shape of %s, which %s, is refused if its offer, its resource or its signing token does not match",
  async (_client, _note, recorded) => {
    const [x402, sent, path] = await shaped(recorded);
    const { accepted, payload, resource } = sent;
    const { authorization } = payload;
    const other = "0x2222222222222222222222222222222222222222";
    const twins: object[] = [
      { accepted: { ...accepted, amount: "1" } },
      { accepted: { ...accepted, payTo: other } },
      { accepted: { ...accepted, maxTimeoutSeconds: accepted.maxTimeoutSeconds + 1 } },
      { accepted: { ...accepted, extra: { ...accepted.extra, name: "USD Coin" } } },
      { accepted: { ...accepted, extra: { ...accepted.extra, quoteMac: null } } },
      { accepted: { ...accepted, extra: { ...accepted.extra, quoteMac: "A".repeat(43) } } },
      { payload: { ...payload, authorization: { ...authorization, value: String(PRICE - 1n) } } },
      { payload: { ...payload, authorization: { ...authorization, note: null } } },
      { payload: { ...payload, permit2Authorization: null } },
      { payload: { ...payload, signature: payload.signature.slice(2) } },
      { payload: { ...payload, authorization: { ...authorization, nonce: authorization.nonce.slice(2) } } },
      { resource: { ...resource, url: resource.url.replace("/1/7", "/1/8") } },
    ];
    for (const twin of twins) {
      const headers = { [recorded.header]: encodeHeader({ ...sent, ...twin }) };
      expect((await x402.post(headers, { path })).status, JSON.stringify(twin)).toBe(402);
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([]);
  },
);
