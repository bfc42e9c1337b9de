import { expect, test } from "vitest";
import type { Hex } from "../../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../../fixtures/devnet.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { PRICE, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import type { Answer } from "../../../../support/http.ts";
import { onlyInLongRun } from "../../../../support/long-run.ts";
import type { Payer } from "../../../../support/sign-payment.ts";
import { newWallet, setAnswers } from "../../../../support/wallets.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });
const { devnet, redis } = fixture;

/** With this limit, an address may have three small unsettled payments: its share is an eighth of a quarter. */
const QUEUE_BYTES_MAX = 4 * 8 * 65_000;
const PER_ADDRESS = 3;
const ATTACKER = "192.0.2.66";
const HONEST = "198.51.100.7";

const start = (x402: object = {}) =>
  fixture.gateway({
    x402: { settle_timeout_secs: 1, ...x402 },
    limits: { queue_bytes_max: QUEUE_BYTES_MAX },
    http: { trusted_proxies: ["127.0.0.1"] },
  });

const payFrom = async (x402: TestX402, payer: Payer, address: string) =>
  x402.post({ ...(await x402.pay({ payer })), "X-Forwarded-For": address });

/** Returns the outcomes of concurrent payments by these payers from one address. */
const payAtOnce = (x402: TestX402, payers: readonly Payer[]) =>
  Promise.all(payers.map((payer) => payFrom(x402, payer, ATTACKER)));

const codesOf = (answers: readonly Answer[]) =>
  answers.map((answer) => (answer.status === 202 ? "paid" : String(answer.json()["code"]))).sort();

const refusedBeyond = (claimed: string, count: number) => [
  ...Array.from({ length: PER_ADDRESS }, () => claimed),
  ...Array.from({ length: count - PER_ADDRESS }, () => "payment.too_many_unsettled"),
];

const usage = () => redis.client.hgetall(keys.paymentsUsageBy);

onlyInLongRun(() => {
  test("wallets that accept their signature in a call and reject it in a transaction use only one address's share, and another address still buys", async () => {
    const x402 = await start();
    const wallets = await Promise.all(Array.from({ length: 8 }, () => newWallet(devnet)));
    for (const wallet of wallets) await setAnswers(devnet, wallet, "YesInCallsOnly");
    const answers = await payAtOnce(x402, wallets);
    expect(codesOf(answers)).toEqual(refusedBeyond("payment.outcome_unknown", 8));
    const refused = answers.find(({ status }) => status === 429);
    expect(Number(refused?.headers["retry-after"])).toBeGreaterThan(0);
    expect(refused?.headers["payment-required"], "it is not to pay again").toBeUndefined();
    expect((await payFrom(x402, fixture.payer, HONEST)).status).toBe(202);
    expect(Object.keys(await usage()).sort()).toEqual(["*", ATTACKER]);
    for (const wallet of wallets) expect(await fixture.charged(wallet)).toEqual([]);
  });

  test("keys that cancel between verify and settle use only one address's share, until the chain shows that they cannot pay", async () => {
    const x402 = await start();
    const payers = await Promise.all(Array.from({ length: 8 }, () => newPayer(devnet)));
    const another = await newPayer(devnet);
    await devnet.chain.pauseMining();
    const answering = payAtOnce(x402, payers);
    await eventually("the settles wait in the pool", async () => {
      const { pending } = await devnet.chain.client.getTxpoolStatus();
      return pending === PER_ADDRESS;
    });
    for (const id of await redis.client.zrange(keys.paymentsUnresolved, "0", "-1")) {
      const { payer, nonce } = (await x402.journal.find(id))?.terms ?? {};
      const key = payers.find(({ address }) => address.toLowerCase() === payer);
      if (key === undefined) throw new Error(`whose is ${id}?`);
      await devnet.chain.cancelAuthorization(key, nonce as Hex, { pending: true });
    }
    expect((await payFrom(x402, another, ATTACKER)).status).toBe(429);
    await devnet.chain.resumeMining();
    // The payment may become void while its request waits.
    const codes = codesOf(await answering).map((code) => code.replace("outcome_unknown", "void"));
    expect(codes.sort()).toEqual(refusedBeyond("payment.void", 8).sort());
    expect((await payFrom(x402, fixture.payer, HONEST)).status).toBe(202);

    await devnet.chain.finalize();
    await eventually("they are void", async () => {
      x402.skip(2000);
      return Object.keys(await usage()).length === 0;
    });
    for (const payer of payers) expect(await fixture.charged(payer)).toEqual([]);
  });

  test("honest buyers who share an address wait for each other's settlements, and all of them buy", async () => {
    const x402 = await start();
    const buyers = await Promise.all(Array.from({ length: 8 }, () => newPayer(devnet)));
    const buy = async (payer: Payer) => {
      const headers = { ...(await x402.pay({ payer })), "X-Forwarded-For": ATTACKER };
      return eventually("it is bought", async () => {
        const answer = await x402.post(headers);
        if (answer.status !== 202) expect(answer.json()["code"]).toBe("payment.too_many_unsettled");
        return answer.status === 202;
      });
    };
    await Promise.all(buyers.map(buy));
    for (const buyer of buyers) expect(await fixture.charged(buyer)).toEqual([PRICE]);
    expect(await usage()).toEqual({});
  });

  test("a payment that one gateway claims and another settles no longer counts as unsettled", async () => {
    const first = await start();
    await devnet.control.fault({ on: "settle", kind: "status", status: 500 });
    const answers = await payAtOnce(first, [fixture.payer, await newPayer(devnet), await newPayer(devnet)]);
    expect(codesOf(answers)).toEqual(refusedBeyond("payment.outcome_unknown", 3));
    await fixture.stop(first);
    const second = await start();
    expect((await payFrom(second, await newPayer(devnet), ATTACKER)).status, "the bound is in Redis").toBe(
      429,
    );
    await devnet.control.clearFaults();
    await eventually("they are settled", async () => {
      second.skip(2000);
      return Object.keys(await usage()).length === 0;
    });
    expect(await second.waiting()).toHaveLength(3);
  });
});

test("a settled payment refunds its verification, signed by a key or a wallet, and a key that never settles uses up the limit", async () => {
  const x402 = await start({ unpaid_verifies_per_payer: 2 });
  for (let each = 0; each < 3; each++)
    expect((await payFrom(x402, fixture.payer, HONEST)).status, "a purchase uses up no verification").toBe(
      202,
    );
  const drop = { on: "settle", kind: "status", status: 500 } as const;
  await devnet.control.fault(drop);
  for (let each = 0; each < 2; each++) {
    const answer = await payFrom(x402, fixture.payer, HONEST);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  }
  const refused = await payFrom(x402, fixture.payer, HONEST);
  expect([refused.status, refused.json()["code"]]).toEqual([429, "request.rate_limited"]);
  expect((await payFrom(x402, await newPayer(devnet), HONEST)).json()["code"]).toBe(
    "payment.outcome_unknown",
  );
});
