import { randomBytes } from "node:crypto";
import { decodeFunctionData } from "viem";
import { beforeEach, expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { tokenAbi } from "../../../../services/dev/chain/contracts/token.ts";
import { type Inject, Refused } from "../../../../services/producer/producer.ts";
import { checksummed } from "../../../../shared/chain/checksum.ts";
import { devToken } from "../../../../shared/dev/config.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createPaymentList } from "../../../../shared/payments/list.ts";
import type { PaymentState } from "../../../../shared/payments/payment.ts";
import { createRefunds } from "../../../../shared/payments/refunds.ts";
import { AppError } from "../../../../shared/platform/errors/app-error.ts";
import { createFailedRecords } from "../../../../shared/queue/call-record.ts";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { ACT } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { asUser, keys } from "../../../fixtures/redis.ts";
import { PRICE, x402Table } from "../../../fixtures/x402.ts";
import { audited } from "../../../support/audited.ts";
import { csvRows } from "../../../support/csv-rows.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { openQueues } from "../../../support/queues.ts";
import { takeBack } from "../../../support/take-back.ts";
import { runHere } from "../run-here.ts";

const payments = usePayments();
const { devnet, redis } = payments;
const console = useOperator({ redis });

/** The operator's multisig, and another account with money. */
let safe: Hex;
let stranger: Hex;
beforeEach(async () => {
  [safe, stranger] = [await newHolder(), await newHolder()];
  configure();
});

function configure(token: object = {}): void {
  payments.postern.configure({
    postern: { redis: { url: asUser(redis.url, "operator") } },
    x402: x402Table({ devnet, token: { refund_from: [safe], ...token } }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
}

async function newHolder(): Promise<Hex> {
  const address: Hex = `0x${randomBytes(20).toString("hex")}`;
  const { client } = devnet.chain;
  await devnet.chain.mint(address, 100n * PRICE);
  await client.setBalance({ address, value: 10n ** 18n });
  await client.impersonateAccount({ address });
  return address;
}

const run = (command: string, ...args: readonly string[]) =>
  runHere(["refunds", command, "--config-dir", payments.postern.configDir, ...args]);
const pay = (command: string, ...args: readonly string[]) =>
  runHere(["payments", command, "--config-dir", payments.postern.configDir, ...args]);
const list = (...args: string[]) => run("list", ...args);
const toCsv = (...args: string[]) => run("export", "-o", "csv", ...args);
const shown = (id: string, format = "csv") => run("show", id, "-o", format);
const check = async () =>
  jsonLines(await run("check", "-o", "json"))[0] as { closed: Closed[]; open: unknown[] };
type Closed = { call_id: string; transaction: string };

const refuse: Inject = () => Promise.reject(new Refused("no such job"));

/**
 * Buys calls whose attempts all end like this. Resolves with their ids once all are in this state and their payments
 * are proven.
 */
async function buyCalls(
  count = 1,
  inject: Inject = refuse,
  state: PaymentState = "FAILED",
): Promise<string[]> {
  const ids = [];
  for (let i = 0; i < count; i++) ids.push(await payments.buy());
  await payments.startProducer(inject);
  await until(ids, state);
  return ids;
}

async function until(ids: readonly string[], state: PaymentState): Promise<void> {
  await eventually(`all are ${state}`, async () => {
    for (const id of ids) await payments.gateway.journal.reschedule(id, 0);
    const found = await createPaymentList(redis.partition).read(ids);
    return found.every((each) => each?.state === state && each.proven);
  });
  // The record of a call says FAILED shortly before its queue lists the call as failed.
  if (state === "FAILED")
    await eventually("all are listed as failed", async () => {
      const scores = await redis.client.zmscore(keys.inQueue(QUEUE, "failed"), ...ids);
      return scores.every((score) => score !== null);
    });
}

const QUEUE = "x402/1/7";
const NOTHING = "nothing was exported: 0 refunds due\n";

const stateOf = async (id: string) => (await payments.gateway.journal.findWithoutCall(id))?.state;

/** Makes an export and resolves with its id. */
async function exportRefunds(...args: string[]): Promise<string> {
  const ran = await toCsv(...args);
  const id = /r_[0-9a-f]{32}/.exec(ran.stderr)?.[0];
  if (id === undefined) throw new Error(ran.stderr);
  return id;
}

async function transfer(from: Hex, to: string, value: bigint, token: Hex = devnet.token): Promise<Hex> {
  const call = { address: token, abi: tokenAbi, functionName: "transfer", args: [to as Hex, value] } as const;
  const hash = await devnet.chain.client.writeContract({ ...call, account: from });
  await devnet.chain.client.waitForTransactionReceipt({ hash });
  return hash;
}

const payBack = (from: Hex = safe) => transfer(from, payments.payer.address, PRICE);

/** Returns a runner that refuses the first call. Each other call first times out and is then refused. */
function refuseFirst(): Inject {
  const offered = new Map<string, number>();
  return async ({ call }) => {
    const isFirst = offered.size === 0 || [...offered.keys()][0] === call.id;
    const times = (offered.get(call.id) ?? 0) + 1;
    offered.set(call.id, times);
    throw new AppError(isFirst || times > 1 ? "runner.refused" : "runner.timed_out", { reason: "?" });
  };
}

test("a list shows paid calls that have failed, changes nothing, and leaves out calls that may have had an effect", async () => {
  const ids = await buyCalls(2, refuseFirst());
  const effects = await createPaymentList(redis.partition).read(ids);
  const refused = effects.find((each) => each?.effect === "none")?.id as string;
  const unsure = effects.find((each) => each?.effect === "unknown")?.id as string;
  const ran = await list();
  expect(ran.code).toBe(0);
  expect(ran.stdout).toContain(refused);
  expect(ran.stdout).not.toContain(unsure);
  expect(ran.stdout).toContain(
    "0 refunds due, 1 failed call to replay or refund, 1 left out: effect unknown (--effect-unknown includes them)",
  );
  const listed = jsonLines(await list("--effect-unknown", "-o", "json")).map((each) => each["call_id"]);
  expect(listed.toSorted()).toEqual(ids.toSorted());
  const named = await toCsv(unsure);
  expect(named).toMatchObject({ code: 1, stdout: "" });
  expect(named.stderr).toBe(
    `no refund can be exported for ${unsure}: effect unknown\nnothing was exported\n`,
  );
  expect(await Promise.all(ids.map(stateOf))).toEqual(["FAILED", "FAILED"]);
  expect(await redis.client.exists(keys.refundsPending)).toBe(0);
  await exportRefunds("--effect-unknown");
  expect(await Promise.all(ids.map(stateOf))).toEqual(["REFUND_PENDING", "REFUND_PENDING"]);
});

test("an export has recipients and amounts for CSV Airdrop and Transaction Builder, and is printed again with the same bytes", async () => {
  await buyCalls(2);
  const token = checksummed(devnet.token);
  const payer = checksummed(payments.payer.address);
  const made = await toCsv();
  const row = `erc20,${token},${payer},3.2,\n`;
  expect(made.stdout).toBe(`token_type,token_address,receiver,amount,id\n${row}${row}`);
  const id = /r_[0-9a-f]{32}/.exec(made.stderr)?.[0] as string;
  configure({ symbol: "OTHER", decimals: 8 });
  expect((await shown(id)).stdout).toBe(made.stdout);
  const batch = await shown(id, "calldata");
  expect((await shown(id, "calldata")).stdout).toBe(batch.stdout);
  const { transactions, ...rest } = JSON.parse(batch.stdout);
  const exports = await createRefunds(redis.partition).find(id);
  expect(rest).toMatchObject({ version: "1.0", chainId: "84532", createdAt: exports?.at });
  expect(transactions).toHaveLength(2);
  for (const { to, value, data } of transactions) {
    expect([to, value]).toEqual([token, "0"]);
    expect(decodeFunctionData({ abi: tokenAbi, data })).toEqual({
      functionName: "transfer",
      args: [payer, PRICE],
    });
  }
});

test("if several exports run at once, each refund is in exactly one, and no empty export is made", async () => {
  const ids = await buyCalls(6);
  const rans = await Promise.all([toCsv(), toCsv(), run("export", "-o", "calldata"), toCsv("--limit", "2")]);
  const found = await redis.client.keys(keys.refundRows("*"));
  const rows = (await Promise.all(found.map((key) => redis.client.lrange(key, 0, -1)))).flat();
  expect(rows.map((row) => JSON.parse(row).call).toSorted()).toEqual(ids.toSorted());
  const open = await Promise.all(found.map((key) => redis.client.hget(key.replace(":rows", ""), "open")));
  expect(open.reduce((sum, count) => sum + Number(count), 0)).toBe(6);
  for (const { code, stdout } of rans) expect([code, stdout === "" || /0x/.test(stdout)]).toEqual([0, true]);
  const before = await redis.client.keys("*refund*");
  expect(await toCsv()).toMatchObject({ code: 0, stdout: "", stderr: NOTHING });
  expect((await redis.client.keys("*refund*")).toSorted()).toEqual(before.toSorted());
});

onlyInLongRun(() => {
  test("a forgotten failed call is exported and paid back like any other, without data from its sender", async () => {
    const [id = ""] = await buyCalls();
    const words = ["calls", "forget", id, "--yes", "--reason", "a test"];
    expect(await runHere([...words, "--config-dir", payments.postern.configDir])).toMatchObject({ code: 0 });
    await until([id], "DISCARDED");
    const made = await exportRefunds(id);
    expect((await shown(made)).stdout).toContain(checksummed(payments.payer.address));
    const transaction = await payBack();
    expect((await check()).closed).toMatchObject([{ call_id: id, transaction }]);
    expect(await stateOf(id)).toBe("REFUNDED");
    expect((await payments.gateway.journal.find(id))?.call).toBeUndefined();
  });
});

const lineOf = (callId: string) =>
  ({ at: 1, action: "refund", callId, by: "me", selection: "a test" }) as const;

onlyInLongRun(() => {
  test("an export whose command reaches Redis twice is one export with the same rows", async () => {
    const [id = ""] = await buyCalls();
    const refunds = createRefunds(redis.partition);
    const payment = await payments.gateway.journal.findWithoutCall(id);
    if (payment === undefined) throw new Error("it is not there");
    const { asset, symbol, payer, amount, network } = payment.terms;
    const made = {
      ...{ id: `r_${"1".repeat(32)}`, at: 1, by: "me", network, block: 1n, effectUnknown: false },
      lineOf,
      cases: [{ payment, row: { call: id, asset, symbol, decimals: 6, payer, amount } }],
    };
    const once = await refunds.export(made);
    expect(once?.rows).toHaveLength(1);
    expect(await refunds.export(made)).toEqual({ ...once, isNew: false });
    expect(await refunds.export({ ...made, id: `r_${"2".repeat(32)}` })).toBeUndefined();
  });
});

test("an exported call is not in the list of failed calls, keeps no body, never expires, and cannot be replayed, discarded or reconciled", async () => {
  const [id = "", other = ""] = await buyCalls(2);
  const failed = (...args: string[]) =>
    runHere(["failed", ...args, "--config-dir", payments.postern.configDir]);
  expect((await failed("discard", other, "--yes", "--reason", "x")).code).toBe(0);
  await eventually("the gateway lets it expire", async () => {
    await payments.gateway.journal.reschedule(other, 0);
    return (await redis.client.pttl(keys.payment(other))) > 0;
  });
  await exportRefunds();
  for (const call of [id, other]) {
    const replay = await failed("replay", call);
    expect([replay.code, replay.stderr]).toEqual([
      1,
      expect.stringContaining("the refund of its payment is exported, so it cannot be replayed or discarded"),
    ]);
    expect((await failed("discard", call, "--yes", "--reason", "x")).code).toBe(1);
    const reconciled = await pay("reconcile", call);
    expect(reconciled.stdout).toContain("refund_pending; a refund check closes it");
    expect(await stateOf(call)).toBe("REFUND_PENDING");
    for (const key of [keys.record(call), keys.payment(call)]) expect(await redis.client.pttl(key)).toBe(-1);
    expect(await redis.client.hmget(keys.payment(call), "call", "request")).toEqual([null, null]);
  }
  expect((await failed("replay", "--all")).stdout).toContain("replayed 0 calls");
  expect(await openQueues(redis.client).countIn("wait", "active", "delayed", "failed")).toBe(0);
  expect(Number(await redis.client.hget(keys.bytes, QUEUE))).toBe(0);
  expect(await redis.client.zrange(keys.paymentsDue, "0", "-1")).toEqual([]);
  const { journal } = payments.gateway;
  const payment = await journal.findWithoutCall(id);
  if (payment !== undefined) await journal.markEnded(payment);
  expect(await redis.client.pttl(keys.record(id))).toBe(-1);
  const lines = await audited(redis.client, ["money"]);
  expect(lines.filter(({ action }) => action === "refund")).toHaveLength(2);
});

test("a payer sees that the refund is pending, and then which transaction has paid it", async () => {
  const [id = ""] = await buyCalls();
  await exportRefunds();
  const status = () => send(payments.gateway.address, { method: "GET", path: `/x402/calls/${id}` });
  expect((await status()).json()).toMatchObject({ state: "refund_pending" });
  const hash = await payBack();
  expect(await check()).toMatchObject({ closed: [{ call_id: id, transaction: hash }], open: [] });
  expect((await status()).json()).toMatchObject({ state: "refunded", refund_transaction: hash });
  expect((await pay("show", id)).stdout).toContain(`transaction ${hash} from ${safe}`);
  expect(await redis.client.pttl(keys.record(id))).toBeGreaterThan(29 * 86_400_000);
});

test("only a later transfer of exactly the amount in the token, from a configured sender to the payer, closes a refund", async () => {
  const payer = payments.payer.address;
  await buyCalls();
  await payBack(); // before the export
  await exportRefunds();
  await payBack(stranger);
  await transfer(safe, payer, PRICE - 1n);
  await transfer(safe, payer, PRICE + 1n);
  await transfer(safe, stranger, PRICE);
  await devnet.chain.client.setCode({ address: OTHER_TOKEN, bytecode: await codeOf(devnet.token) });
  await mintOther(safe);
  await transfer(safe, payer, PRICE, OTHER_TOKEN);
  expect(await check()).toMatchObject({ closed: [], open: [{}] });
  const hash = await payBack();
  expect((await check()).closed).toMatchObject([{ transaction: hash }]);
});

const OTHER_TOKEN: Hex = `0x${"7".repeat(40)}`;
const codeOf = async (address: Hex) => (await devnet.chain.client.getCode({ address })) as Hex;

async function mintOther(to: Hex): Promise<void> {
  const call = { address: OTHER_TOKEN, abi: tokenAbi, functionName: "mint", args: [to, PRICE] } as const;
  const hash = await devnet.chain.client.writeContract(call);
  await devnet.chain.client.waitForTransactionReceipt({ hash });
}

onlyInLongRun(() => {
  test("a transfer closes no case before it has the depth that payments need", async () => {
    await buyCalls();
    // The devnet makes a block each second by itself.
    configure({ confirmations: 120 });
    await exportRefunds();
    await payBack();
    await devnet.chain.mine();
    expect((await check()).closed).toEqual([]);
    await devnet.chain.mine(119);
    expect((await check()).closed).toHaveLength(1);
  });

  test("two refunds of one amount to one payer need two transfers, even with many concurrent checks", async () => {
    const ids = await buyCalls(3);
    await exportRefunds(ids[0] as string);
    await exportRefunds(ids[1] as string, ids[2] as string);
    const first = await payBack();
    const closed = async () =>
      (await Promise.all([check(), check(), check()])).flatMap((each) => each.closed);
    expect(await closed()).toMatchObject([{ transaction: first }]);
    expect(await closed()).toEqual([]);
    const second = await payBack();
    expect(await closed()).toMatchObject([{ transaction: second }]);
    await payBack();
    await payBack();
    expect(await closed()).toHaveLength(1);
    expect(await Promise.all(ids.map(stateOf))).toEqual(["REFUNDED", "REFUNDED", "REFUNDED"]);
    for (const key of await redis.client.keys("{postern}:refund:*"))
      expect(await redis.client.pttl(key)).toBeGreaterThan(0);
  });

  test("a transfer that was sent before a case was exported does not close it, even if it came after another case's export", async () => {
    const [first = "", second = ""] = await buyCalls(2);
    await exportRefunds(first);
    await payBack();
    await payBack();
    await exportRefunds(second);
    expect((await check()).closed).toMatchObject([{ call_id: first }]);
    expect((await check()).closed).toEqual([]);
    expect(await stateOf(second)).toBe("REFUND_PENDING");
  });

  test("a call whose record does not say whether it had an effect counts as one that may have had one", async () => {
    const id = await payments.buy();
    await redis.client.hdel(keys.record(id), "unsure");
    await payments.startProducer(refuse);
    await until([id], "FAILED");
    expect((await list()).stdout).toContain("0 refunds due, 1 left out: effect unknown");
  });

  test("a report of refunds is a table for bookkeeping, the same from Redis and through the console, and exports nothing", async () => {
    const [id = ""] = await buyCalls();
    const here = await run("report");
    expect(csvRows(here.stdout)).toMatchObject([
      { call_id: id, state: "failed", amount: "3.2", job_ran: "no" },
    ]);
    const { address } = await console.start({ configDir: payments.postern.configDir });
    const there = await runHere(
      ["refunds", "report", "--operator", `http://${address}`, "--config-dir", "/nowhere"],
      { POSTERN_OPERATOR_TOKEN: TOKENS.viewer },
    );
    expect(there).toEqual(here);
    expect(await stateOf(id)).toBe("FAILED");
    for (const odd of [[id], ["-o", "csv"], ["--network", "eip155:1"], ["-o", "json"]])
      expect(await run("report", ...odd)).toMatchObject({ code: 2, stdout: "" });
  });

  test("a discard that is resumed after the export of its call does not undo the export", async () => {
    const [id = ""] = await buyCalls();
    const records = createFailedRecords(redis.partition);
    const failedAt = Number(await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id));
    const call = { id, queue: QUEUE, failedAt } as const;
    expect(await records.beginDiscard(call, ACT)).toBe("done");
    await exportRefunds();
    await records.endDiscard(call, Date.now());
    expect(await stateOf(id)).toBe("REFUND_PENDING");
    expect(await redis.client.pttl(keys.record(id))).toBe(-1);
    expect(await records.beginReplay(call, ACT)).toBe(false);
    expect(await records.beginDiscard(call, ACT)).toBe("left");
  });

  test("a transfer that has closed a refund is remembered after the call is forgotten", async () => {
    const [first = "", second = ""] = await buyCalls(2);
    await exportRefunds();
    await payBack();
    const [{ call_id: closed = "" } = {}] = (await check()).closed;
    await redis.client.del(keys.record(closed), keys.payment(closed));
    expect((await check()).closed).toEqual([]);
    expect(await stateOf(closed === first ? second : first)).toBe("REFUND_PENDING");
  });

  test("a disputed, unconfirmed or unreadable payment is never exported, but one that an operator settled is", async () => {
    const [disputed = "", unproven = "", later = "", settled = ""] = await buyCalls(4);
    await payments.gateway.journal.markDisputed(disputed, "the chain does not show it");
    // The gateway's reconciler would prove the payment again.
    await payments.stopGateway();
    await redis.client.hset(keys.payment(unproven), "proven", 0);
    await redis.client.hset(keys.payment(later), "terms", "?");
    const known = JSON.parse(String(await redis.client.hget(keys.payment(settled), "settlement")));
    await redis.client.hset(keys.payment(settled), {
      ...{ proven: 0, reason: "it was in review" },
      settlement: JSON.stringify({ ...known, by: "operator" }),
    });
    const { stdout } = await list("--effect-unknown");
    expect(stdout).toContain("1 left out: disputed");
    expect(stdout).toContain("1 left out: not confirmed");
    expect(stdout).toContain("1 left out: unreadable");
    const made = await toCsv("--effect-unknown");
    expect(made.stdout).not.toBe("");
    expect(made.stderr).toContain("1 left out: not confirmed (run this again once the chain confirms them");
    const none = await toCsv("--effect-unknown");
    expect([none.code, none.stdout]).toEqual([0, ""]);
    expect(none.stderr).toMatch(/^nothing was exported: 0 refunds due, .*1 left out: not confirmed \(/);
    const states = await Promise.all(
      ["st", "st", "st", "st"].map((st, i) =>
        redis.client.hget(keys.record([disputed, unproven, later, settled][i] as string), st),
      ),
    );
    expect(states).toEqual(["FAILED", "FAILED", "FAILED", "REFUND_PENDING"]);
  });

  test("a payment that becomes disputed, or whose effect becomes unknown, between list and export is not exported", async () => {
    const [disputed = "", unsure = "", replayed = ""] = await buyCalls(3);
    const { journal } = payments.gateway;
    const cases = await Promise.all(
      [disputed, unsure, replayed].map(async (id) => {
        const payment = await journal.findWithoutCall(id);
        if (payment === undefined) throw new Error("it is not there");
        const { asset, symbol, payer, amount } = payment.terms;
        return { payment, row: { call: id, asset, symbol, decimals: 6, payer, amount } };
      }),
    );
    await journal.markDisputed(disputed, "the chain does not show it");
    await redis.client.hset(keys.record(unsure), "unsure", 1);
    await redis.client.zrem(keys.inQueue(QUEUE, "failed"), replayed);
    const made = {
      id: `r_${"3".repeat(32)}`,
      at: 1,
      by: "me",
      network: devnet.network,
      block: 1n,
      effectUnknown: false,
      lineOf,
    };
    expect(await createRefunds(redis.partition).export({ ...made, cases })).toBeUndefined();
    expect(await redis.client.exists(keys.refund(made.id))).toBe(0);
  });

  test("payments in other states are no refund cases", async () => {
    const open = await payments.claim();
    const review = await payments.claimForReview();
    const queued = await payments.buy();
    for (const id of [open, review, queued]) {
      const ran = await toCsv(id, "--effect-unknown");
      expect([ran.code, ran.stdout]).toEqual([1, ""]);
      expect(ran.stderr).toContain(`no refund can be exported for ${id}: it is `);
    }
    await payments.startProducer(async () => {});
    await eventually("it is injected", async () => (await stateOf(queued)) === "INJECTED");
    expect((await toCsv("--effect-unknown")).stderr).toBe(NOTHING);
  });

  test("without a sender or a node that could show the refund nothing is exported, and an unknown export is reported", async () => {
    const [id = ""] = await buyCalls();
    configure({ refund_from: [] });
    const ran = await toCsv();
    expect([ran.code, ran.stdout]).toEqual([3, ""]);
    expect(ran.stderr).toContain("has no refund_from");
    expect(await stateOf(id)).toBe("FAILED");
    const none = await shown(`r_${"0".repeat(32)}`);
    expect([none.code, none.stdout]).toEqual([1, ""]);
    expect(none.stderr).toContain("there is no export r_0000");
  });

  test("a case stays open and is reported if the senders of its token were removed from the configuration", async () => {
    await buyCalls();
    await exportRefunds();
    await payBack();
    configure({ refund_from: [] });
    const ran = await run("check");
    expect(ran.code).toBe(1);
    expect(ran.stdout).toContain(
      "the refund was not checked, because x402.toml has no refund_from or no rpc_url",
    );
  });

  test("an export covers exactly one network", async () => {
    const [id = "", other = ""] = await buyCalls(2);
    const terms = JSON.parse(String(await redis.client.hget(keys.payment(other), "terms")));
    await redis.client.hset(keys.payment(other), "terms", JSON.stringify({ ...terms, network: "eip155:1" }));
    const ran = await toCsv();
    expect([ran.code, ran.stderr]).toEqual([
      2,
      expect.stringContaining("an export must be of one network, but these refunds are on eip155:"),
    ]);
    await exportRefunds("--network", devnet.network);
    expect([await stateOf(id), await stateOf(other)]).toEqual(["REFUND_PENDING", "FAILED"]);
  });

  test("a misspelt network is refused, but not one that has an accepted token and no case", async () => {
    const [id = ""] = await buyCalls();
    const { address } = await console.start({ configDir: payments.postern.configDir });
    const there = (command: string, ...args: readonly string[]) =>
      runHere(["refunds", command, "--operator", `http://${address}`, ...args], {
        POSTERN_OPERATOR_TOKEN: TOKENS.operator,
      });
    const known = `choose one of ${devnet.network}`;
    for (const network of ["8453", "eip155:1"])
      for (const [command, ...format] of [["list"], ["export", "-o", "csv"]] as const)
        for (const asked of [run, there])
          expect(await asked(command, "--network", network, ...format)).toEqual({
            ...{ code: 2, stdout: "" },
            stderr: `error: no refund can be exported on ${network}, and no accepted token is on it; ${known}\n`,
          });
    expect(await stateOf(id)).toBe("FAILED");
    const terms = JSON.parse(String(await redis.client.hget(keys.payment(id), "terms")));
    await redis.client.hset(keys.payment(id), "terms", JSON.stringify({ ...terms, network: "eip155:1" }));
    for (const asked of [run, there]) {
      const empty = await asked("list", "--network", devnet.network);
      expect([empty.code, empty.stdout]).toEqual([
        0,
        expect.stringContaining("0 refunds due, more on eip155:1"),
      ]);
      expect((await asked("list", "--network", "eip155:1")).stdout).toContain(id);
    }
  });

  test("a 2xx after the export changes no state, and is marked ATTENTION wherever the payment is shown", async () => {
    let succeed: () => void = () => {};
    let offers = 0;
    const late = new Promise<void>((resolve) => {
      succeed = resolve;
    });
    const id = await payments.buy();
    const { events } = await payments.startProducer(() => {
      offers += 1;
      return offers === 1 ? late : Promise.reject(new Refused("no"));
    });
    await eventually("the runner has it", () => offers === 1);
    await takeBack(redis.partition, { id, queue: QUEUE });
    await until([id], "FAILED");
    const made = await exportRefunds("--effect-unknown");
    succeed();
    await eventually("it is told of", () =>
      events.some(({ event }) => event === "call.injected_after_refund"),
    );
    expect(await stateOf(id)).toBe("REFUND_PENDING");
    expect((await shown(made)).stderr).toContain(`ATTENTION: ${id}`);
    expect((await run("check")).stdout).toContain(`ATTENTION: ${id}`);
    expect((await pay("show", id)).stdout).toContain("ATTENTION");
  });

  test("a refund whose call was injected after the export is not closed by a transfer, and can be withdrawn", async () => {
    const [late, other] = (await buyCalls(2)) as [string, string];
    await exportRefunds();
    const withdraw = (id: string) => run("withdraw", id, "--reason", "the runner has done it");
    expect(await withdraw(late)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("only a pending refund whose call was injected after the export"),
    });
    await redis.client.hset(keys.record(late), "late", Date.now());
    const transaction = await payBack();
    await devnet.chain.mine(2);
    expect((await check()).closed).toMatchObject([{ call_id: other, transaction }]);
    expect(await withdraw(late)).toMatchObject({ code: 0 });
    expect([await stateOf(late), await stateOf(other)]).toEqual(["INJECTED", "REFUNDED"]);
    expect(await redis.client.zcard(keys.refundsPending)).toBe(0);
    expect(await redis.client.pttl(keys.record(late))).toBeGreaterThan(0);
    const by = expect.stringContaining("@");
    const lines = (await audited(redis.client)).slice(-3);
    expect(lines).toMatchObject([
      { action: "begin_refund_check", by, run: expect.stringMatching(/^run_/) },
      { action: "close_refund", by, call_id: other, transaction, run: lines[0]?.["run"] },
      { action: "withdraw", by, call_id: late },
    ]);
  });

  test("an unreadable case and an unavailable node are reported, and do not keep other cases from being closed", async () => {
    const [ill, well] = (await buyCalls(2)) as [string, string];
    await exportRefunds();
    await payBack();
    await devnet.chain.mine(2);
    await redis.client.hset(keys.payment(ill), "terms", "{}");
    const token = { ...devToken(devnet), refund_from: [safe], confirmations: 0 };
    const away = { ...token, asset: devnet.callerRegistry, rpc_url: "http://127.0.0.1:1", symbol: "AWAY" };
    const stranded = await payments.claim({});
    await redis.client.hset(keys.record(stranded), "st", "REFUND_PENDING");
    const terms = JSON.parse(String(await redis.client.hget(keys.payment(stranded), "terms")));
    const elsewhere = JSON.stringify({ ...terms, asset: devnet.callerRegistry });
    const refund = JSON.stringify({ export: `r_${"0".repeat(32)}`, at: 1, block: "1" });
    await redis.client.hset(keys.payment(stranded), { terms: elsewhere, refund });
    await redis.client.zadd(keys.refundsPending, 1, stranded);
    payments.postern.configure({
      postern: { redis: { url: asUser(redis.url, "operator") } },
      x402: { ...x402Table({ devnet }), accepted_tokens: [away, token] },
      job_pricing: { "1": { "7": "1000000000000000" } },
    });
    const ran = await run("check");
    expect([ran.code, ran.stdout]).toEqual([
      1,
      expect.stringContaining(`${well} was refunded by transaction`),
    ]);
    expect(ran.stderr).toContain(`${ill}: `);
    expect(ran.stderr).toContain("AWAY on ");
  });

  test("if a named call is not on the named network, nothing is exported", async () => {
    const [id] = (await buyCalls()) as [string];
    const ran = await toCsv(id, "--network", "eip155:1");
    expect([ran.code, ran.stderr]).toEqual([1, expect.stringContaining(`${id} is on ${devnet.network}`)]);
    expect(await stateOf(id)).toBe("FAILED");
  });
});

onlyInLongRun(() => {
  type Audited = { surplus_refunds: { transaction: string; from: string; payment: { call_id: string } }[] };

  /** Returns the surplus refunds in an audit of all blocks from this one on. Expects no other findings. */
  async function surplusSince(block: bigint): Promise<Audited["surplus_refunds"]> {
    const ran = await pay("audit", "--from-block", String(block), "-o", "json");
    const { tokens } = jsonLines(ran)[0] as { tokens: [Audited] };
    const [{ surplus_refunds: surplus }] = tokens;
    expect(ran.code).toBe(surplus.length === 0 ? 0 : 1);
    return surplus;
  }

  test("the audit lists a refund that was sent twice or after it was withdrawn, and no other transfer", async () => {
    const begun = await devnet.chain.client.getBlockNumber();
    const surplus = () => surplusSince(begun);
    const [paid = "", late = ""] = await buyCalls(2);
    await exportRefunds(paid);
    const first = await payBack();
    await transfer(safe, payments.payer.address, PRICE - 1n);
    await transfer(stranger, payments.payer.address, PRICE);
    expect(await surplus()).toEqual([]);
    expect((await check()).closed).toMatchObject([{ call_id: paid, transaction: first }]);
    expect(await surplus()).toEqual([]);

    const second = await payBack();
    expect((await check()).closed).toEqual([]);
    const twice = { transaction: second, from: safe, payment: { call_id: paid } };
    expect(await surplus()).toMatchObject([twice]);
    expect((await pay("audit", "--from-block", String(begun))).stdout).toContain(
      `transaction ${second}, block`,
    );

    await exportRefunds(late);
    const third = await payBack();
    await redis.client.hset(keys.record(late), "late", Date.now());
    const withdrawn = await run("withdraw", late, "--reason", "the runner took it", "-o", "json");
    expect([withdrawn.code, jsonLines(withdrawn)]).toMatchObject([0, [{ call_id: late, state: "injected" }]]);
    expect((await surplus()).map(({ transaction }) => transaction)).toEqual([second, third]);
  });
});
