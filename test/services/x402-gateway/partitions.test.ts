import { beforeEach, expect, test } from "vitest";
import type { DevAccount } from "../../../services/dev/chain/chain.ts";
import { callIdFrom } from "../../../shared/call/call-id.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { routeOfPayer } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { idIn, PRICE, signOffer, type TestX402, useX402 } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";
import { DELEGATED, proofOf, restrictedJobs } from "./restricted-jobs.ts";

const PARTITIONS = 4;
const fixture = useX402();

let x402: TestX402;
let caller: DevAccount;

const partitions = () => partitionsOver(fixture.redis.client, PARTITIONS);
const indexOf = (callId: string) => partitions().of(callId).index;

/** Creates payers with money until each partition has one. */
async function payers(): Promise<DevAccount[]> {
  const found: DevAccount[] = [];
  while (found.filter(Boolean).length < PARTITIONS) {
    const payer = await newPayer(fixture.devnet);
    found[indexOf(routeOfPayer(payer.address))] = payer;
  }
  return found;
}

const nonceHashOf = (by: DevAccount, nonce: string) =>
  sha256Hex(Buffer.from(`1/9/${by.address.toLowerCase()}/${nonce}`));

const payFor = async (payer: DevAccount, path = DELEGATED, gateway = x402) =>
  signOffer(await gateway.post({}, { path }), { payer });

async function outcome(headers: Record<string, string>, gateway = x402): Promise<unknown[]> {
  const { status, json } = await gateway.post(headers, { path: DELEGATED });
  return [status, json()["code"] ?? json()["status"]];
}

beforeEach(async () => {
  x402 = await fixture.gateway({ ...restrictedJobs(fixture.devnet), partitions: PARTITIONS });
  caller = await newPayer(fixture.devnet, 0n);
  await fixture.devnet.chain.permitCaller(1n, caller.address);
});

test("a payment is stored in the partition of its payer, is charged once however often it is sent, and has one call there", async () => {
  const buyers = await payers();
  for (const [index, payer] of buyers.entries()) {
    const headers = { ...(await payFor(payer)), ...(await proofOf({ by: caller, nonce: `nonce-${index}` })) };
    const answers = await Promise.all([1, 2, 3].map(() => x402.post(headers, { path: DELEGATED })));
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202]);
    expect(new Set(answers.map(idIn)).size).toBe(1);
    expect(indexOf(idIn(answers[0]!))).toBe(index);
    expect(await fixture.charged(payer)).toEqual([PRICE]);
  }
  expect(await x402.waiting()).toHaveLength(PARTITIONS);
});

onlyInLongRun(() => {
  test("a caller's proof buys once, whatever partitions its payers have, even at two gateways at once", async () => {
    const buyers = await payers();
    const second = await fixture.gateway({ ...restrictedJobs(fixture.devnet), partitions: PARTITIONS });
    const proof = await proofOf({ by: caller });
    const outcomes = await Promise.all(
      buyers.map(async (payer, index) => {
        const gateway = index % 2 === 0 ? x402 : second;
        return outcome({ ...(await payFor(payer, DELEGATED, gateway)), ...proof }, gateway);
      }),
    );
    expect(outcomes.toSorted()).toEqual([[202, "accepted"], ...Array(3).fill([403, "caller.nonce_used"])]);
    const charged = await Promise.all(buyers.map((payer) => fixture.charged(payer)));
    expect(charged.flat()).toEqual([PRICE]);
  });

  test("a void payment frees its caller's nonce in another partition, and a later payment uses up that nonce for all payers", async () => {
    const { x402: policies } = restrictedJobs(fixture.devnet);
    const trusting = await fixture.gateway({
      ...restrictedJobs(fixture.devnet),
      x402: { ...policies, trust_facilitator: true, open_payments_per_payer: 1 },
      token: { rpc_url: undefined as never },
      partitions: PARTITIONS,
      early: true,
    });
    await eventually("its facilitator is known", () => trusting.gateway.readiness().ready);
    const proof = await proofOf({ by: caller });
    const home = indexOf(callIdFrom(nonceHashOf(caller, "nonce-1")));
    const [refused, next] = (await payers()).filter((_, index) => index !== home) as [DevAccount, DevAccount];
    await fixture.devnet.control.fault({
      on: "settle",
      kind: "refuse",
      reason: "insufficient_funds",
      times: 1,
    });
    const first = { ...(await payFor(refused, DELEGATED, trusting)), ...proof };
    expect(await outcome(first, trusting)).toEqual([402, "payment.rejected"]);
    await expect.poll(() => partitions().all[home]?.redis.keys("*caller-nonce*")).toEqual([]);
    const second = { ...(await payFor(next, DELEGATED, trusting)), ...proof };
    expect(await outcome(second, trusting)).toEqual([202, "accepted"]);
    expect(await outcome({ ...(await payFor(refused, DELEGATED, trusting)), ...proof }, trusting)).toEqual([
      403,
      "caller.nonce_used",
    ]);
  });
});
