import { expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { idIn, JOB_PATH } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { permit2Payment, permit2Token } from "../../x402-gateway/permit2-gateway.ts";
import { runHere, runHereWith } from "../run-here.ts";

const payments = usePayments({ token: (devnet) => permit2Token(devnet, "usdt") });
const { devnet } = payments;
const run = runHereWith(payments.postern);
const usdt = () => devnet.permit2Tokens.usdt;

async function withTokens(): Promise<void> {
  await devnet.chain.mint(payments.payer.address, 10n ** 9n, usdt());
}

const charges = async () => devnet.chain.chargesOf(payments.payer.address, usdt());

async function pay() {
  const url = `http://${payments.gateway.address}${JOB_PATH}`;
  const options = ["--max", "5", "--token", `${usdt()}=6`, "--wait=0"];
  return runHere(["pay", url, ...options], { POSTERN_PAYER_KEY: payments.payer.privateKey });
}

test("postern pay buys with Permit2, and says what to approve if Permit2 has no allowance", async () => {
  await withTokens();
  const refused = await pay();
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("approve Permit2 (0x")]);
  await devnet.chain.permit2.approve(payments.payer, usdt());
  await eventually("the refusal is believed no more", async () => (await pay()).code === 0);
  expect(await charges()).toHaveLength(1);
});

/** Makes a payment in review that another contract has settled. */
async function wrapped(): Promise<{ id: string; transaction: Hex }> {
  await payments.restartGateway({ x402: { settle_timeout_secs: 1 } });
  await withTokens();
  await devnet.chain.permit2.approve(payments.payer, usdt());
  await devnet.control.fault({ on: "settle", kind: "drop" });
  const { headers, signed } = await permit2Payment(payments.gateway, { payer: payments.payer });
  const posted = payments.gateway.post(headers);
  const settles = async () => (await devnet.control.requests()).settle;
  await eventually("it is claimed", async () => (await settles()) > 0);
  const transaction = await devnet.chain.permit2.settle(signed, { wrapped: true });
  const id = idIn(await posted);
  await payments.gateway.journal.markForReview(id, "wrapped");
  return { id, transaction };
}

onlyInLongRun(() => {
  test("a permit that another contract settled is an orphan until an operator names its transaction, and then its job runs", async () => {
    const fromBlock = String((await devnet.chain.client.getBlockNumber()) + 1n);
    const { id, transaction } = await wrapped();
    const audit = () => run(["payments", "audit", "--from-block", fromBlock]);
    const before = await audit();
    expect([before.code, before.stdout]).toEqual([1, expect.stringContaining("0 matched, 1 orphan,")]);

    const args = ["--settled", "--transaction", transaction, "--reason", "a batch of the facilitator"];
    expect(await run(["payments", "resolve", id, ...args])).toMatchObject({ code: 0 });
    await eventually("its call waits", async () =>
      (await payments.gateway.waiting()).some((call) => call.id === id),
    );
    const after = await audit();
    expect([after.code, after.stdout]).toEqual([0, expect.stringContaining("1 matched, 0 orphans")]);
  });

  test("a transaction that pays another permit does not resolve a review", async () => {
    const { id } = await wrapped();
    const other = await permit2Payment(payments.gateway, { payer: payments.payer });
    const transaction = await devnet.chain.permit2.settle(other.signed);
    const args = ["--settled", "--transaction", transaction, "--reason", "x"];
    const refused = await run(["payments", "resolve", id, ...args]);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("does not pay for this call"),
    ]);
  });
});

test("payments that were settled before they arrived are listed with the transaction, and that it has paid", async () => {
  await withTokens();
  await devnet.chain.permit2.approve(payments.payer, usdt());
  const { headers, signed } = await permit2Payment(payments.gateway, { payer: payments.payer });
  const transaction = await devnet.chain.permit2.settle(signed);
  expect((await payments.gateway.post(headers)).status).toBe(409);
  const { stdout } = await run(["payments", "list-spent"]);
  expect(stdout).toContain(`paid to you in ${transaction}`);
});
