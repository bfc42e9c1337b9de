import { expect, test } from "vitest";
import { createSpentElsewhere, type SpentElsewhere } from "../../../../shared/payments/spent-elsewhere.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { connectForWork } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { codeOf } from "../../../support/books.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { authorizationIn, signAuthorization } from "../../../support/sign-payment.ts";
import { runHere } from "../run-here.ts";

const payments = usePayments();
const ends = useEnds();
const list = (...args: string[]) =>
  runHere(["payments", "list-spent", "--config-dir", payments.postern.configDir, ...args]);

test("payments that were spent before they arrived are listed with their transaction, and whether the money arrived", async () => {
  const { devnet, payer } = payments;
  const { token, chainId, chain } = devnet;
  const { gateway } = payments;
  const [paid, cancelled, kept] = await Promise.all([1, 2, 3].map(() => gateway.pay({ payer })));
  const own = { payer, to: payer.address, value: 1n, token, chainId };
  const { nonce } = authorizationIn(kept!).authorization;
  const transactions = [
    await chain.frontRun(await signAuthorization({ ...own, nonce })),
    await chain.cancelAuthorization(payer, authorizationIn(cancelled!).authorization.nonce),
    await chain.frontRun(authorizationIn(paid!)),
  ];
  for (const headers of [paid!, cancelled!, kept!, kept!])
    expect(codeOf(await gateway.post(headers))).toBe("payment.spent_elsewhere");

  const rows = jsonLines(await list("-o", "json"));
  expect(rows.map(({ transaction, paid, payer }) => ({ transaction, paid, payer }))).toEqual(
    transactions.map((transaction, i) => ({
      transaction,
      paid: i === 2,
      payer: payer.address.toLowerCase(),
    })),
  );
  const { stdout } = await list();
  expect(stdout).toContain(`paid to you in ${transactions[2]}`);
  expect(stdout).toContain(`cancelled in ${transactions[1]}`);
  expect(stdout).toContain(`spent in ${transactions[0]}, but not paid to you`);
  expect(stdout).toContain("3 payments already spent");
});

onlyInLongRun(() => {
  test("the newest thousand payments are kept, each as it first arrived, so that a payer cannot fill Redis with them", async () => {
    const { url, client } = payments.redis;
    const ofGateway = connectForWork({ url: new Secret(asUser(url, "x402")) }, silentLogger);
    ends.defer(() => ofGateway.disconnect());
    const { note } = createSpentElsewhere(partitionOf(ofGateway));
    const one = (i: number): SpentElsewhere => ({
      ...{ id: `c_${String(i).padStart(32, "0")}`, at: i, service_id: 1, job_index: 7, block: String(i) },
      ...{ network: payments.devnet.network, asset: payments.devnet.token, symbol: "USDC" },
      ...{ pay_to: payments.devnet.seller, payer: payments.payer.address, nonce: `0x${"1".repeat(64)}` },
      ...{ amount: "1", valid_after: "0", valid_before: "1", transfer_method: "eip3009" },
    });
    for (let i = 0; i < 1003; i++) await note(one(i));
    await note({ ...one(1002), at: 5000 });
    const listed = await createSpentElsewhere(payments.redis.partition).list();
    expect([listed.length, listed[0], listed.at(-1)?.at]).toEqual([1000, one(1002), 3]);
    const keys = await client.keys("*spent*");
    expect(keys.length).toBe(2);
  });
});
