import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createReadSeries } from "../../../../shared/telemetry/series/read.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);
/** Makes a payment that is in review although it was made, because its node had no logs. */
async function paidInReview(): Promise<{ id: string; transaction: string }> {
  const nonce = await payments.payOnChain();
  const id = await payments.claim({ nonce });
  await payments.gateway.journal.markForReview(id, "the node lacks logs");
  return { id, transaction: await transactionOf(nonce) };
}

async function transactionOf(nonce: string): Promise<string> {
  const transfers = await payments.devnet.chain.transfers(payments.devnet.seller);
  return String(transfers.find((each) => each.nonce === nonce)?.transaction);
}

const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

test("a payment in review that is resolved as settled gets its job from the gateway, and the audit log says who decided", async () => {
  const { id, transaction } = await paidInReview();
  const args = ["--settled", "--transaction", transaction, "--reason", "seen on the explorer"];
  expect(await run(["payments", "resolve", id, ...args])).toMatchObject({ code: 0 });
  await eventually("its call waits", async () =>
    (await payments.gateway.waiting()).some((call) => call.id === id),
  );
  const [call] = await payments.gateway.waiting();
  expect(call?.metadata["X-X402-TRANSACTION"]).toBe(transaction);
  expect((await payments.gateway.journal.find(id))?.settlement).toMatchObject({
    by: "operator",
    network: payments.devnet.network,
  });
  for (const list of ["payments", "calls"])
    expect((await run([list, "show", id])).stdout).toMatch(
      new RegExp(`transaction ${transaction}[ ,(]+confirmed by an operator\\)?\n`),
    );
  const earned = await createReadSeries(payments.redis.partition).earned(2);
  expect(earned.map(({ job, payments: count }) => [job, count])).toEqual([["1/7", 1]]);
  const [entry] = await payments.redis.client.xrange(keys.audit("money"), "-", "+");
  const line = entry?.[1].join(" ") ?? "";
  expect(line).toContain(`action settle call_id ${id} by `);
  expect(line).toMatch(/by \S+@\S+ selection by id/);
  expect(line).toContain("reason seen on the explorer");
  expect(line).toContain(`transaction ${transaction}`);
  expect(await run(["payments", "list", "-o", "json", "--disputed"])).toMatchObject({ code: 0, stdout: "" });
});

test("a payment in review that is resolved as void loses its body and is no longer open", async () => {
  const id = await payments.claimForReview();
  expect(await run(["payments", "resolve", id, "--void", "--reason", "x"])).toMatchObject({
    code: 0,
  });
  const payment = await payments.gateway.journal.find(id);
  expect(payment).toMatchObject({ state: "VOID", reason: "decided by the operator", call: undefined });
  expect(await payments.redis.client.scard(keys.openPayments(payments.payer.address.toLowerCase()))).toBe(0);
});

test("the payer of a payment that an operator voids learns that an operator decided, but not the reason", async () => {
  const headers = await payments.gateway.pay({ payer: payments.payer });
  const payload = Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString();
  const { nonce } = JSON.parse(payload).payload.authorization as { nonce: string };
  const id = await payments.claim({ nonce });
  await payments.gateway.journal.markForReview(id, "x");
  await run(["payments", "resolve", id, "--void", "--reason", "this payer is a fraud"]);
  const answer = await payments.gateway.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.void"]);
  expect(answer.text).toContain("decided by the operator");
  expect(answer.text + JSON.stringify(answer.headers)).not.toContain("fraud");
});

onlyInLongRun(() => {
  test("a disputed payment that an operator acknowledges is no longer listed as disputed, keeps its state, and has an audit line", async () => {
    const id = await payments.buy();
    const acknowledge = (reason: string) =>
      run(["payments", "resolve", id, "--acknowledged", "--reason", reason]);
    const listed = async (flag: string) =>
      jsonLines(await run(["payments", "list", "-o", "json", flag])).map(({ call_id }) => call_id);
    expect(await acknowledge("too early")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("only a disputed payment can be acknowledged"),
    });
    await payments.gateway.journal.markDisputed(id, "the chain says: expired");
    expect([await listed("--disputed"), await listed("--acknowledged")]).toEqual([[id], []]);
    expect(await acknowledge("refunded by hand")).toMatchObject({ code: 0 });
    expect([await listed("--disputed"), await stateOf(id)]).toEqual([[], "QUEUED"]);
    expect(await listed("--acknowledged")).toEqual([id]);
    const shown = (await run(["payments", "show", id])).stdout;
    expect(shown).toMatch(/acknowledged +by \S+@\S+: refunded by hand/);
    const [entry] = await payments.redis.client.xrange(keys.audit("money"), "-", "+");
    expect(entry?.[1].join(" ")).toContain(`action acknowledge call_id ${id} by `);
    expect((await acknowledge("again")).stderr).toContain("It was decided by");
  });
});

test.each(["settled", "void"])(
  "a decision (%s) is in the journal with its audit line, and a second one changes nothing",
  async (kind) => {
    const { id, transaction } = await paidInReview();
    const verdict = kind === "void" ? ["--void"] : ["--settled", "--transaction", transaction];
    const resolve = (reason: string) => run(["payments", "resolve", id, ...verdict, "--reason", reason]);
    expect(await resolve("seen on the explorer")).toMatchObject({ code: 0 });
    const lines = [expect.objectContaining({ call_id: id, reason: "seen on the explorer" })];
    expect(await audited(payments.redis.client)).toEqual(lines);

    const told = /\bby \S+@\S+: seen on the explorer\n/;
    expect((await run(["payments", "show", id])).stdout).toMatch(told);
    const [json] = jsonLines(await run(["payments", "show", id, "-o", "json"]));
    expect(json?.["decided"]).toEqual({
      by: expect.stringMatching(/^\S+@\S+$/),
      reason: "seen on the explorer",
    });
    const second = await resolve("another reason");
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/nothing was changed\. It was decided /);
    expect(second.stderr).toMatch(told);
    expect(await audited(payments.redis.client)).toEqual(lines);
  },
);

test("a decision is not made if its audit line cannot be written", async () => {
  const { id } = await paidInReview();
  await payments.redis.client.set(keys.audit("money"), "no stream");
  expect(await run(["payments", "resolve", id, "--void", "--reason", "x"])).toMatchObject({ code: 1 });
  const [json] = jsonLines(await run(["payments", "show", id, "-o", "json"]));
  expect(json).toMatchObject({ state: "review" });
});

test("a payment in review cannot be settled by a transaction that the chain does not show as its own, or that pays another call", async () => {
  const { id, transaction } = await paidInReview();
  const other = await transactionOf(await payments.payOnChain());
  const resolve = (hash: string) =>
    run(["payments", "resolve", id, "--settled", "--transaction", hash, "--reason", "x"]);
  expect(await resolve(other)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("does not pay for this call"),
  });
  expect(await resolve(`0x${"ab".repeat(32)}`)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("the chain has no transaction"),
  });
  const taken = keys.paidTransfer(payments.devnet.network, transaction, 1);
  await payments.redis.client.set(taken, "c_of_another_call");
  expect(await resolve(transaction)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("pays for another call"),
  });
  expect([await stateOf(id), await payments.gateway.waiting()]).toEqual(["REVIEW", []]);
  await payments.redis.client.del(taken);
  expect(await resolve(transaction)).toMatchObject({ code: 0 });
});

test.each([
  ["one that is settling", () => payments.claim(), "settling"],
  ["one whose call is queued", () => payments.buy(), "queued"],
])("only a payment in review can be resolved, and %s is not changed", async (_, make, state) => {
  const id = await make();
  const ran = await run(["payments", "resolve", id, "--void", "--reason", "x"]);
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toContain(`${id} is ${state}: only a payment in review can be resolved`);
  expect((await stateOf(id))?.toLowerCase()).toBe(state);
  expect(await payments.redis.client.xlen(keys.audit("money"))).toBe(0);
});
