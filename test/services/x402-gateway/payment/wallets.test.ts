import type { PaymentRequirements } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { expect, test } from "vitest";
import { walletFactoryCode } from "../../../../services/dev/chain/contracts/wallet-factory.ts";
import { devToken } from "../../../../shared/dev/config.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import {
  idIn,
  inTime,
  JOB_PATH,
  PRICE,
  type TestX402,
  useX402,
  withoutPayerFields,
} from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { clientSigner, type Payer, signPayment } from "../../../support/sign-payment.ts";
import {
  asErc6492,
  NOT_SIGNED,
  newWallet,
  setAnswers,
  setOwner,
  type WalletPayer,
} from "../../../support/wallets.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const { devnet } = fixture;

const codeIn = (answer: { status: number; json(): Record<string, unknown> }) => [
  answer.status,
  answer.json()["code"],
];

/** Makes a payment by this wallet, with a changed signature. */
async function payBy(x402: TestX402, payer: Payer, resign = (signature: `0x${string}`) => signature) {
  const [offer] = (await x402.ask()).v2.accepts;
  const { payload } = await signPayment(offer as PaymentRequirements, inTime({ payer }));
  const signed = payload.payload as { signature: `0x${string}`; authorization: { nonce: string } };
  signed.signature = resign(signed.signature);
  const headers = { "PAYMENT-SIGNATURE": Buffer.from(JSON.stringify(payload)).toString("base64") };
  return { headers, nonce: signed.authorization.nonce };
}

const WALLETS = [
  ["deployed", { deployed: true }],
  ["not deployed yet", { deployed: false }],
  ["deployed, and whose signature is its owner's", { deployed: true, form: "bare" }],
] as const;
test.each(sample(WALLETS, 2))(
  "the unmodified official client buys a job for a wallet that is %s, in both versions",
  async (_what, choice) => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet, choice);
    fixture.payer = wallet;
    const client = new x402Client().register("eip155:*", new ExactEvmScheme(clientSigner(wallet)));
    client.setSpendControls(false);
    const buy = wrapFetchWithPayment(fetch, client);
    const answer = await buy(`http://${x402.address}${JOB_PATH}`, { method: "POST", body: "hello" });
    expect(answer.status).toBe(202);
    expect((await x402.post(await x402.payV1({ payer: wallet }))).status).toBe(202);
    expect(await fixture.charged(wallet)).toEqual([PRICE, PRICE]);
    expect((await x402.waiting()).map(({ metadata }) => metadata["X-X402-PAYER"])).toEqual([
      wallet.address.toLowerCase(),
      wallet.address.toLowerCase(),
    ]);
  },
);

onlyInLongRun(() => {
  test("a wallet pays in version 1 while only one token of its network is offered there, and otherwise gets the reason for its refusal", async () => {
    const wallet = await newWallet(devnet);
    const another = `0x${"7".repeat(40)}` as const;
    await devnet.chain.oddToken(another, {});
    const sellingFor = async (v1: boolean) => {
      const own = { ...devToken(devnet), confirmations: 0 };
      return fixture.gateway({ x402: { accepted_tokens: [own, { ...own, asset: another, v1 }] } });
    };
    const one = await sellingFor(false);
    expect((await one.post(await one.payV1({ payer: wallet }))).status).toBe(202);
    const both = await sellingFor(true);
    const answer = await both.post(await both.payV1({ payer: wallet }));
    expect(codeIn(answer)).toEqual([402, "payment.signature_invalid"]);
    expect(answer.json()["detail"]).toContain("version 1 does not say which token");
  });

  test("a repeat of a wallet's payment is recognized by its signature, even if the wallet no longer accepts the signature", async () => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet);
    const { headers } = await payBy(x402, wallet);
    const first = await x402.post(headers);
    await setAnswers(devnet, wallet, "Never");
    await setOwner(devnet, wallet, devnet.seller);
    const again = await x402.post(headers);
    expect([again.status, again.headers["idempotent-replayed"], withoutPayerFields(again)]).toEqual([
      202,
      "true",
      withoutPayerFields(first),
    ]);
    expect(codeIn(await x402.post(headers, { body: "another body" }))).toEqual([409, "payment.conflict"]);
    expect(await fixture.charged(wallet)).toEqual([PRICE]);
  });

  test("a wallet's payment is not revealed to another signature, unless the wallet accepts that one too", async () => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet, { form: "bare" });
    const { headers } = await payBy(x402, wallet);
    const first = await x402.post(headers);
    const payload = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"], "base64").toString());
    payload.payload.signature = `0x${"11".repeat(80)}`;
    const forged = { "PAYMENT-SIGNATURE": Buffer.from(JSON.stringify(payload)).toString("base64") };
    // Sent outside the fixture's accounting, which identifies a payment by its payer and nonce.
    const request = { path: JOB_PATH, headers: forged, body: Buffer.from("hello") };
    expect(codeIn(await send(x402.address, request))).toEqual([402, "payment.signature_invalid"]);
    await setAnswers(devnet, wallet, "Always");
    x402.skip(3000);
    const taken = await x402.post(forged);
    expect([taken.status, idIn(taken)]).toEqual([202, idIn(first)]);
    expect(await fixture.charged(wallet)).toEqual([PRICE]);
  });
});

test.each(sample(NOT_SIGNED))(
  "a wallet that answers %s has not signed: the payer gets 402, and no facilitator is asked",
  async (answers) => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet);
    await setAnswers(devnet, wallet, answers);
    const answer = await x402.post((await payBy(x402, wallet)).headers);
    expect(codeIn(answer)).toEqual([402, "payment.signature_invalid"]);
    expect(answer.json()["detail"]).toMatch(/contract/);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  },
);

const BROKEN_CONTRACTS = [
  ["jumps to nowhere", "0x600056"],
  ["pops from an empty stack", "0x50"],
  ["has an unknown instruction", "0x0c"],
  ["fills the stack", "0x5b5f5f5f600056"],
  ["copies return data that it did not receive", "0x60205f5f3e"],
] as const;
onlyInLongRun(() => {
  test.each(BROKEN_CONTRACTS)(
    "a payer's contract that %s is refused at once with 402, because the node is not called again",
    async (_what, bytecode) => {
      const x402 = await fixture.gateway();
      const { address, privateKey } = await newPayer(devnet);
      await devnet.chain.client.setCode({ address, bytecode });
      const { headers } = await payBy(x402, { address, privateKey }, () => `0x${"11".repeat(80)}`);
      expect(codeIn(await x402.post(headers))).toEqual([402, "payment.signature_invalid"]);
    },
  );

  test("a wallet of several owners does not pay with the bare signature of one: if there is a contract, no key counts", async () => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet, { form: "bare" });
    await setAnswers(devnet, wallet, "TrulyIfWrapped");
    const answer = await x402.post((await payBy(x402, wallet)).headers);
    expect(codeIn(answer)).toEqual([402, "payment.signature_invalid"]);
  });
});

test("a payer's own signature does not charge another wallet, deployed or not", async () => {
  const x402 = await fixture.gateway();
  const thief = await newPayer(devnet, 0n);
  for (const deployed of [true, false]) {
    const wallet = await newWallet(devnet, { deployed });
    const { wrap } = wallet;
    const asWallet = { ...wallet, privateKey: thief.privateKey, wrap };
    const answer = await x402.post((await payBy(x402, asWallet)).headers);
    expect(codeIn(answer)).toEqual([402, "payment.signature_invalid"]);
    expect(await fixture.charged(wallet)).toEqual([]);
  }
});

onlyInLongRun(() => {
  test("a precompiled contract that returns its input is not a wallet, although it has money", async () => {
    const x402 = await fixture.gateway();
    const address = `0x${"4".padStart(40, "0")}` as const;
    await devnet.chain.mint(address, 10n * PRICE);
    const { privateKey } = await newPayer(devnet, 0n);
    const answer = await x402.post((await payBy(x402, { address, privateKey })).headers);
    expect(codeIn(answer)).toEqual([402, "payment.signature_invalid"]);
  });

  test("a signature that deploys another wallet than the payer's, or none, is refused with the reason", async () => {
    const x402 = await fixture.gateway();
    const [wallet, other] = [
      await newWallet(devnet, { deployed: false }),
      await newWallet(devnet, { deployed: false }),
    ];
    const deployments = [
      other.deployment,
      { to: devnet.seller, data: "0x" },
      { to: devnet.token, data: "0x12345678" },
    ] as const;
    for (const deployment of deployments) {
      const made = await payBy(x402, {
        ...wallet,
        wrap: async (signature) => asErc6492(deployment, signature),
      } as WalletPayer);
      expect(codeIn(await x402.post(made.headers))).toEqual([402, "payment.signature_invalid"]);
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  test("a factory that the facilitator does not deploy with is the payer's error, not the offer's", async () => {
    const x402 = await fixture.gateway();
    const factory = "0x00000000000000000000000000000000000fac99";
    await devnet.chain.client.setCode({ address: factory, bytecode: walletFactoryCode });
    const wallet = await newWallet(devnet, { deployed: false, factory });
    const answer = await x402.post((await payBy(x402, wallet)).headers);
    expect(codeIn(answer)).toEqual([402, "payment.rejected"]);
    expect(answer.json()["detail"]).toContain("eip6492_factory_not_allowed");
    expect(x402.log.events.filter(({ event }) => event === "offer.invalid")).toEqual([]);
  });

  test("an undeployed wallet without money is refused for its balance, and not for its signature", async () => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet, { deployed: false, tokens: 1n });
    const answer = await x402.post((await payBy(x402, wallet)).headers);
    expect(codeIn(answer)).toEqual([402, "payment.rejected"]);
    expect(answer.json()["detail"]).toContain("insufficient_funds");
  });

  test("a signature of 4 KiB is accepted, and a longer one makes the payment malformed", async () => {
    const x402 = await fixture.gateway();
    const wallet = await newWallet(devnet);
    await setAnswers(devnet, wallet, "Always");
    const long = await payBy(x402, wallet, () => `0x${"ab".repeat(4096)}`);
    expect((await x402.post(long.headers)).status).toBe(202);
    const longer = await payBy(x402, wallet, () => `0x${"ab".repeat(4097)}`);
    expect(codeIn(await x402.post(longer.headers))).toEqual([402, "payment.malformed"]);
  });

  test("an address that names a wallet in bad payments is refused for a while, and the owner still pays from another address", async () => {
    const x402 = await fixture.gateway({
      x402: { unpaid_verifies_per_payer: 2, unpaid_verifies_per_address: 5 },
      http: { trusted_proxies: ["127.0.0.1"] },
    });
    const wallet = await newWallet(devnet);
    const from = (address: string) => ({ "X-Forwarded-For": address });
    const answers = [];
    for (let i = 0; i < 7; i++) {
      const bad = await payBy(x402, wallet, () => `0x${"11".repeat(65 + i)}`);
      answers.push((await x402.post({ ...bad.headers, ...from("192.0.2.1") })).status);
    }
    expect(answers).toEqual([402, 402, 402, 402, 402, 429, 429]);
    for (let i = 0; i < 4; i++) {
      const good = await payBy(x402, wallet);
      expect((await x402.post({ ...good.headers, ...from("192.0.2.2") })).status).toBe(202);
    }
  });

  test("a payer with a key can still pay from an address that sends bad signatures", async () => {
    const x402 = await fixture.gateway({ x402: { unpaid_verifies_per_address: 3 } });
    const wallet = await newWallet(devnet, { tokens: 0n });
    const bad = async (i: number) =>
      x402.post((await payBy(x402, wallet, () => `0x${"11".repeat(65 + i)}`)).headers);
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push((await bad(i)).status);
    expect(answers).toEqual([402, 402, 402, 429]);
    expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(202);
  });

  test("a wallet that accepts its signature for the gateway and rejects it for the facilitator uses up its verifications and those of its address", async () => {
    const x402 = await fixture.gateway({
      x402: { unpaid_verifies_per_payer: 2, settle_timeout_secs: 1, open_payments_per_payer: 50 },
    });
    const wallet = await newWallet(devnet);
    await devnet.control.fault({ on: "settle", kind: "refuse", reason: "invalid_exact_evm_signature" });
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push((await x402.post((await payBy(x402, wallet)).headers)).status);
    expect(answers).toEqual([503, 503, 429]);
  });
});
