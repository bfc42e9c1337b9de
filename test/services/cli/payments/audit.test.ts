import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { tokenAbi } from "../../../../services/dev/chain/contracts/token.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, type Ran } from "../../../fixtures/postern.ts";
import { PRICE } from "../../../fixtures/x402.ts";
import { audited } from "../../../support/audited.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere, runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);
/** First block of a test, which excludes transfers of earlier tests. */
let fromBlock: string;
beforeEach(async () => {
  await payments.devnet.chain.mine();
  fromBlock = String((await payments.devnet.chain.client.getBlockNumber()) + 1n);
});

type Found = Record<string, unknown>[];

type Audited = { matched: number; orphans: Found; unsettled: Found; missing: Found };

const auditFrom = (block: string, ...args: string[]) =>
  runHere(["payments", "audit", "--config-dir", payments.postern.configDir, "--from-block", block, ...args]);
const audit = (...args: string[]) => auditFrom(fromBlock, ...args);

function found(ran: Pick<Ran, "stdout" | "stderr">): Audited {
  const [{ tokens } = {}] = jsonLines(ran);
  if (tokens === undefined) throw new Error(ran.stderr);
  return (tokens as Audited[])[0] as Audited;
}

/** Transfers without a signed authorization: the payer sends the transaction itself. */
async function transferPlainly(value: bigint): Promise<string> {
  const { chain, token, seller } = payments.devnet;
  await chain.mint(chain.client.account.address, value);
  const call = { address: token, abi: tokenAbi, functionName: "transfer", args: [seller, value] } as const;
  const hash = await chain.client.writeContract(call);
  await chain.client.waitForTransactionReceipt({ hash });
  return hash;
}

test("an audit matches all payments with their transfers, and exits with 0", async () => {
  await Promise.all([payments.buy(), payments.buy(), payments.buy()]);
  const ran = await run(["payments", "audit", "--from-block", fromBlock, "-o", "json"]);
  expect(found(ran)).toMatchObject({ matched: 3, orphans: [], unsettled: [], missing: [] });
  expect(ran.code).toBe(0);
  expect(await audited(payments.redis.client)).toMatchObject([
    {
      ...{ action: "begin_audit", run: expect.stringMatching(/^run_/), by: expect.stringContaining("@") },
      selection: `--from-block ${fromBlock}`,
    },
  ]);
  expect((await audit()).stdout).toContain("3 matched, 0 orphans, 0 unsettled, 0 missing, 0 surplus refunds");
  await payments.devnet.chain.mine();
  const later = String(await payments.devnet.chain.client.getBlockNumber());
  const none = await auditFrom(later, "--to-block", later, "-o", "json");
  expect(found(none)).toMatchObject({ matched: 0, missing: [] });
});

test("an audit lists a transfer without a payment as an orphan, with sender, amount, transaction and nonce", async () => {
  await payments.buy();
  const hash = await transferPlainly(1_250_000n);
  const nonce = await payments.payOnChain();
  const ran = await audit("-o", "json");
  expect(ran.code).toBe(1);
  const { matched, orphans } = found(ran);
  expect(matched).toBe(1);
  expect(orphans).toEqual([
    expect.objectContaining({ transaction: hash, amount: "1250000", nonce: null, call_id: null }),
    expect.objectContaining({ from: payments.payer.address.toLowerCase(), amount: String(PRICE), nonce }),
  ]);
  const { stdout } = await audit();
  expect(stdout).toContain(
    `orphan: 1.25 USDC from ${payments.devnet.chain.client.account.address.toLowerCase()}`,
  );
  expect(stdout).toContain("is unknown: there was no such payment, or its call ended more than 30 days ago");
});

test("an audit lists a transfer as an orphan if its authorization was used for another amount than its payment's", async () => {
  const nonce = await payments.payOnChain(PRICE - 1n);
  const id = await payments.claim({ nonce });
  const { orphans, unsettled } = found(await audit("-o", "json"));
  expect(orphans).toEqual([expect.objectContaining({ call_id: id, amount: String(PRICE - 1n) })]);
  expect(unsettled).toEqual([]);
});

test("an audit lists a transfer for a payment that does not count as paid, with the payment's state", async () => {
  const id = await payments.claim({ nonce: await payments.payOnChain() });
  await payments.gateway.journal.markForReview(id, "x");
  const ran = await audit("-o", "json");
  expect(ran.code).toBe(1);
  expect(found(ran).unsettled).toEqual([
    expect.objectContaining({ payment: expect.objectContaining({ call_id: id, state: "review" }) }),
  ]);
});

test("an audit lists a paid payment without a transfer as missing, but only if it was claimed in the range", async () => {
  await payments.restartGateway({ token: { settlement_proof: "facilitator" } });
  await payments.devnet.control.fault({ on: "settle", kind: "accept" });
  const id = await payments.buy();
  await payments.devnet.chain.mine(2);
  const since = (await payments.gateway.journal.find(id))?.sinceBlock ?? 0n;
  const missingIn = async (...args: string[]) => {
    const ran = await runHere([
      "payments",
      "audit",
      "--config-dir",
      payments.postern.configDir,
      "-o",
      "json",
      ...args,
    ]);
    return { code: ran.code, missing: found(ran).missing };
  };
  expect(await missingIn("--from-block", String(since))).toEqual({
    code: 1,
    missing: [{ payment: expect.objectContaining({ call_id: id }) }],
  });
  expect(await missingIn("--from-block", String(since + 1n))).toMatchObject({ missing: [] });
  expect(await missingIn("--from-block", "1", "--to-block", String(since - 1n))).toMatchObject({
    missing: [],
  });
});

test("an audit without blocks, with an unknown network or without a configuration fails, and does not pass as clean", async () => {
  expect(await audit("--to-block", "1")).toMatchObject({ code: 2, stdout: "" });
  expect(await audit("--network", "eip155:1")).toMatchObject({ code: 2, stdout: "" });
  expect(await audit("--config-dir", "/nowhere")).toMatchObject({ code: 3, stdout: "" });
});

test("a file of another audit that is unreadable or no audit is refused with the reason", async () => {
  const file = join(tempDir(), "other.json");
  const refused = async () => {
    const { code, stderr } = await audit("--other", file);
    return [code, stderr];
  };
  expect(await refused()).toEqual([2, expect.stringContaining(`--other ${file}: cannot be read (ENOENT`)]);
  writeFileSync(file, Buffer.from("\ufeff{}", "utf16le"));
  expect(await refused()).toEqual([
    2,
    expect.stringContaining(`--other ${file}: is UTF-16: save it as UTF-8`),
  ]);
  writeFileSync(file, "{}");
  expect(await refused()).toEqual([
    2,
    expect.stringContaining("must be the output of `postern payments audit"),
  ]);
});
