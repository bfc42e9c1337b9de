import type { PaymentRequirements } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { EXACT_PROXY, PERMIT2 } from "../../../../shared/chain/permit2.ts";
import { devToken } from "../../../../shared/dev/config.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createResolve } from "../../../../shared/payments/resolve.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { idIn, JOB_PATH, type TestX402, useX402, withoutPayerFields } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { signPermit2Payment } from "../../../support/permit2.ts";
import { clientSigner } from "../../../support/sign-payment.ts";
import { newWallet } from "../../../support/wallets.ts";
import { approvedPayer, type Permit2Symbol, permit2Payment, permit2Token } from "../permit2-gateway.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const { devnet } = fixture;
const PRICES = { usdt: 3_200_000n, dai: 3_200_000_000_000_000_000n };

const sellFor = (symbol: Permit2Symbol, x402 = {}) =>
  fixture.gateway({ token: permit2Token(devnet, symbol), x402 });
const charged = async (payer: { address: Hex }, symbol: Permit2Symbol = "usdt") =>
  (await devnet.chain.chargesOf(payer.address, devnet.permit2Tokens[symbol])).map(({ value }) => value);
const codeIn = (answer: { status: number; json(): Record<string, unknown> }) => [
  answer.status,
  answer.json()["code"],
];

const BUYERS = [
  ["a key", "usdt"],
  ["a wallet", "dai"],
  ["a key", "dai"],
  ["a wallet", "usdt"],
] as const;

test.each(sample(BUYERS))(
  "the unmodified official client buys a job with the Permit2 token %s, in %s",
  async (who, symbol) => {
    const x402 = await sellFor(symbol);
    const made = who === "a wallet" ? await newWallet(devnet, { tokens: 0n }) : undefined;
    const payer = await approvedPayer(fixture, symbol, made);
    fixture.payer = payer;
    const asset = devnet.permit2Tokens[symbol];
    const client = new x402Client().register("eip155:*", new ExactEvmScheme(clientSigner(payer)));
    client.setSpendControls({
      maxAmountPerPayment: false,
      allowedAssets: [{ asset, network: devnet.network as `eip155:${number}` }],
    });
    const buy = wrapFetchWithPayment(fetch, client);
    const answer = await buy(`http://${x402.address}${JOB_PATH}`, { method: "POST", body: "hello" });
    expect(answer.status).toBe(202);
    expect(await charged(payer, symbol)).toEqual([PRICES[symbol]]);
    const [call] = await x402.waiting();
    expect(call?.metadata).toMatchObject({
      "X-X402-PAYER": payer.address.toLowerCase(),
      "X-X402-PAYMENT-TOKEN": symbol.toUpperCase(),
      "X-X402-AMOUNT": String(PRICES[symbol]),
    });
  },
);

onlyInLongRun(() => {
  test("one permit, sent ten times at once to two replicas, is one charge and one job, and gets one answer", async () => {
    const replicas = [await sellFor("usdt"), await sellFor("usdt")] as const;
    const payer = await approvedPayer(fixture, "usdt");
    const { headers } = await permit2Payment(replicas[0], { payer });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => replicas[i % 2 ? 1 : 0].post(headers)),
    );
    expect(new Set(answers.map((answer) => `${answer.status} ${withoutPayerFields(answer)}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(202);
    expect([await charged(payer), (await replicas[0].waiting()).length]).toEqual([[PRICES.usdt], 1]);
  });

  test("two tokens share a payer's nonces, because Permit2 accepts each nonce once", async () => {
    const usdt = await sellFor("usdt");
    const payer = await approvedPayer(fixture, "usdt");
    const { headers, signed } = await permit2Payment(usdt, { payer });
    const first = await usdt.post(headers);
    const dai = await sellFor("dai");
    await approvedPayer(fixture, "dai", payer);
    const nonce = BigInt(signed.permit2Authorization.nonce);
    const again = await permit2Payment(dai, { payer, nonce });
    const answer = await dai.post(again.headers);
    // The payment has another token and amount under the same nonce, so it is the first call's payment.
    expect([idIn(answer), answer.headers["idempotent-replayed"]]).toEqual([idIn(first), "true"]);
    expect([await charged(payer), await charged(payer, "dai")]).toEqual([[PRICES.usdt], []]);
  });
});

test("a payer who has not approved Permit2 is refused with 412 and new offers, before a facilitator is called", async () => {
  const x402 = await sellFor("usdt");
  const payer = await newPayer(devnet, 0n);
  await devnet.chain.mint(payer.address, PRICES.usdt, devnet.permit2Tokens.usdt);
  const { headers } = await permit2Payment(x402, { payer });
  const refused = await x402.post(headers);
  expect(codeIn(refused)).toEqual([412, "payment.allowance_required"]);
  expect(refused.headers["payment-required"]).toBeDefined();
  expect(refused.json()["detail"]).toContain(PERMIT2);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });

  await devnet.chain.permit2.approve(payer, devnet.permit2Tokens.usdt);
  x402.skip(3000);
  expect((await x402.post(headers)).status).toBe(202);
});

onlyInLongRun(() => {
  test("a refusal of a permit in one token does not apply to a permit in another token under the same nonce", async () => {
    const common = { ...devToken(devnet), confirmations: 0 };
    const usdt = { ...common, ...permit2Token(devnet, "usdt") };
    const dai = { ...common, ...permit2Token(devnet, "dai"), rate_per_native_unit: "0.0000000032" };
    const x402 = await fixture.gateway({ x402: { accepted_tokens: [usdt, dai] } });
    const payer = await approvedPayer(fixture, "usdt");
    const [inUsdt, inDai] = (await x402.ask()).v2.accepts as PaymentRequirements[];
    expect(inDai?.amount).toBe(inUsdt?.amount);
    const deadline = BigInt(Math.floor(Date.now() / 1000) + 120);
    const pay = async (offer: PaymentRequirements | undefined) => {
      const made = await signPermit2Payment(offer as PaymentRequirements, { payer, nonce: 7n, deadline });
      return x402.post({ "PAYMENT-SIGNATURE": made.header });
    };
    expect((await pay(inDai)).status).toBe(402);
    expect((await pay(inUsdt)).status).toBe(202);
  });
});

const REFUSED_PERMITS = [
  ["for another spender", { spender: PERMIT2 as Hex }, "payment.malformed"],
  ["of another token", { token: "dai" }, "payment.not_offered"],
  ["to another recipient", { to: PERMIT2 as Hex }, "payment.not_offered"],
  ["for another amount", { value: 3_199_999n }, "payment.not_offered"],
  ["that ends too soon", { deadline: BigInt(Math.floor(Date.now() / 1000) + 5) }, "payment.window_unusable"],
] as const;
test.each(sample(REFUSED_PERMITS))(
  "a permit %s is refused with 402, and no facilitator is asked",
  async (_what, given, code) => {
    const x402 = await sellFor("usdt");
    const payer = await approvedPayer(fixture, "usdt");
    const token = "token" in given ? devnet.permit2Tokens.dai : devnet.permit2Tokens.usdt;
    const answer = await x402.post((await permit2Payment(x402, { payer, ...given, token })).headers);
    expect(codeIn(answer)).toEqual([402, code]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

onlyInLongRun(() => {
  test("an authorization of EIP-3009 for a token by Permit2 is refused with the method that its offer names", async () => {
    const x402 = await sellFor("usdt");
    const headers = await x402.pay({ payer: fixture.payer, name: "USDC", version: "2" });
    const answer = await x402.post(headers);
    expect(codeIn(answer)).toEqual([402, "payment.not_offered"]);
    expect(answer.json()["detail"]).toContain("permit2");
  });

  test("a permit that an observer settles before the facilitator, with extra call data, is one charge and one job", async () => {
    const x402 = await sellFor("usdt");
    const payer = await approvedPayer(fixture, "usdt");
    const { headers, signed } = await permit2Payment(x402, { payer });
    await devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    const first = x402.post(headers);
    await eventually("it is claimed", async () => (await fixture.asked()).settle === 1);
    const transaction = await devnet.chain.permit2.settle(signed, { suffix: "0x80218021" });
    const id = idIn(await first);
    await x402.untilState(id, "QUEUED");
    expect((await x402.journal.find(id))?.settlement?.transaction).toBe(transaction);
    expect([await charged(payer), (await x402.waiting()).length]).toEqual([[PRICES.usdt], 1]);
  });

  test("a permit that was settled before it arrived is refused with 409, and there is no call", async () => {
    const x402 = await sellFor("usdt");
    const payer = await approvedPayer(fixture, "usdt");
    const { headers, signed } = await permit2Payment(x402, { payer });
    fixture.foreign.push(`0x${BigInt(signed.permit2Authorization.nonce).toString(16).padStart(64, "0")}`);
    await devnet.chain.permit2.settle(signed);
    expect(codeIn(await x402.post(headers))).toEqual([409, "payment.spent_elsewhere"]);
    expect(await x402.waiting()).toEqual([]);
  });
});

/** Expects that the payment is in review, long after its deadline. */
async function reviewed(x402: TestX402, id: string) {
  await devnet.chain.increaseTime(600);
  await devnet.chain.finalize();
  return x402.untilState(id, "REVIEW");
}

/** Claims a payment that no facilitator settles. */
async function unsettled(x402: TestX402, choice: Parameters<typeof permit2Payment>[1]) {
  await devnet.control.fault({ on: "settle", kind: "drop" });
  const made = await permit2Payment(x402, choice);
  const id = idIn(await x402.post(made.headers));
  return { id, ...made };
}

onlyInLongRun(() => {
  test("a permit is in review, neither void nor a job, if its payer invalidates the nonce after the claim", async () => {
    const x402 = await sellFor("usdt", { settle_timeout_secs: 1 });
    const payer = await approvedPayer(fixture, "usdt");
    const { id, signed } = await unsettled(x402, { payer });
    await devnet.chain.permit2.invalidate(payer, BigInt(signed.permit2Authorization.nonce));
    const { reason } = await reviewed(x402, id);
    expect(reason).toContain("the permit's nonce is used");
    expect([await charged(payer), await x402.waiting()]).toEqual([[], []]);
  });

  test("a permit that is never settled is void once a final block is past its deadline, and is not charged", async () => {
    const x402 = await sellFor("usdt", { settle_timeout_secs: 1 });
    const payer = await approvedPayer(fixture, "usdt");
    const { id } = await unsettled(x402, { payer });
    await devnet.chain.increaseTime(600);
    await devnet.chain.finalize();
    expect(await x402.untilState(id, "VOID")).toMatchObject({ reason: "expired" });
    expect(await charged(payer)).toEqual([]);
  });

  test("a permit that another contract sends to the proxy is in review, and its transfer pays for one call once an operator says so", async () => {
    const x402 = await sellFor("usdt");
    const payer = await approvedPayer(fixture, "usdt");
    const one = await unsettled(x402, { payer });
    const two = await unsettled(x402, { payer });
    const transaction = await devnet.chain.permit2.settle(one.signed, { wrapped: true });
    await devnet.chain.permit2.invalidate(payer, BigInt(two.signed.permit2Authorization.nonce));
    const payment = await reviewed(x402, one.id);
    const other = await reviewed(x402, two.id);
    const resolve = createResolve({
      ...{ journal: x402.journal, clock: Date.now, log: x402.log, by: "me" },
    });
    const receipt = await devnet.chain.client.getTransactionReceipt({ hash: transaction });
    const position = receipt.logs.findIndex(({ address }) => address !== EXACT_PROXY.toLowerCase());
    const verdict = { kind: "settled", transaction, positions: [position] } as const;
    expect(await resolve(payment, verdict, "wrapped")).toEqual({ kind: "done" });
    expect(await resolve(other, verdict, "the same transfer")).toEqual({
      kind: "left",
      state: "TRANSFER_TAKEN",
    });
    expect([await charged(payer), (await x402.waiting()).map(({ id }) => id)]).toEqual([
      [PRICES.usdt],
      [one.id],
    ]);
  });
});
