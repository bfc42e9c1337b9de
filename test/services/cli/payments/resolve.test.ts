import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keys } from "../../../../shared/redis/keys.ts";
import { type Fixture, jsonLines, payOnChain, startFixture } from "../../../fixtures/payments.ts";
import { type DevAccount, newPayer } from "../../../support/devnet.ts";

let fixture: Fixture;
let payer: DevAccount;
beforeAll(async () => {
  fixture = await startFixture();
});
beforeEach(async () => {
  payer = await newPayer(fixture.devnet);
});
afterEach(() => fixture.clear());
afterAll(() => fixture.stop());

const TRANSACTION = `0x${"ab".repeat(32)}`;
const UNKNOWN = `c_${"0".repeat(32)}`;

/** A paid call that waits in the queue. */
async function paid(): Promise<string> {
  const answer = await fixture.x402().post(await fixture.x402().pay({ payer }));
  expect(answer.status).toBe(202);
  return String(answer.json()["call_id"]);
}

async function inReview(reason = "the node lacks logs"): Promise<string> {
  const id = await fixture.claim({ payer: payer.address });
  await fixture.x402().journal.markForReview(id, { now: Date.now(), reason });
  return id;
}

async function listed(...args: string[]): Promise<unknown[]> {
  const ran = await fixture.postern(["payments", "list", "--json", ...args]);
  expect(ran.code).toBe(0);
  return jsonLines(ran).map((line) => line["call_id"]);
}

const stateOf = async (id: string) => (await fixture.x402().journal.find(id))?.state;

test("payments are listed the newest first, by state, payer, time, openness and dispute", async () => {
  const { journal } = fixture.x402();
  const claim = (now: number) => fixture.claim({ payer: payer.address, now });
  const other = await fixture.claim({ payer: `0x${"11".repeat(20)}`, now: 1000 });
  const [disputed, voided] = [await claim(2000), await claim(3000)];
  const review = await claim(4000);
  const found = async (id: string) => {
    const payment = await journal.find(id);
    if (payment === undefined) throw new Error(`${id} is not there`);
    return payment;
  };
  const settlement = {
    transaction: TRANSACTION,
    network: "eip155:84532",
    payer: "0x",
    by: "facilitator",
  } as const;
  await journal.markSettled(await found(disputed), { settlement, proven: false }, { now: 1 });
  await journal.markDisputed(disputed, "the chain says: expired");
  await journal.markVoid(await found(voided), { reason: "expired" }, { now: Date.now() });
  await journal.markForReview(review, { now: 1, reason: "spent" });
  const all = [review, voided, disputed, other];
  expect(await listed()).toEqual(all);
  expect(await listed("--limit", "2")).toEqual(all.slice(0, 2));
  expect(await listed("--payer", payer.address)).toEqual([review, voided, disputed]);
  expect(await listed("--state", "void")).toEqual([voided]);
  expect(await listed("--open")).toEqual([review, disputed, other]);
  expect(await listed("--disputed")).toEqual([disputed]);
  const [since, until] = ["1970-01-01T00:00:02", "1970-01-01T00:00:03"];
  expect(await listed("--since", since, "--until", until)).toEqual([voided, disputed]);
});

test("a list meets every payment once, also of many in one millisecond, and forgets those that have expired", async () => {
  const ids = await Promise.all(
    Array.from({ length: 250 }, (_, i) =>
      fixture.claim({ payer: `0x${String(i).padStart(40, "0")}`, now: 1000 + (i < 200 ? 0 : i) }),
    ),
  );
  const [gone = "", ...left] = ids;
  await fixture.redis.del(keys.record(gone), keys.payment(gone));
  expect((await listed("--limit", "0")).toSorted()).toEqual(left.toSorted());
  expect(await fixture.redis.zscore(keys.payments, gone)).toBeNull();
  expect(await fixture.redis.zcard(keys.payments)).toBe(left.length);
});

test("show tells state, terms, settlement and body size; an id that is not known exits 1 and says since when", async () => {
  const id = await paid();
  const text = (await fixture.postern(["payments", "show", id])).stdout;
  for (const part of [id, "queued since", payer.address.toLowerCase(), "3200000", "body ", "5 bytes"]) {
    expect(text).toContain(part);
  }
  const [json] = jsonLines(await fixture.postern(["payments", "show", id, "--json"]));
  expect(json).toMatchObject({ call_id: id, state: "queued", dispatches: 1, terms: { body_bytes: 5 } });
  expect(json?.["settlement"]).toMatchObject({ by: "facilitator" });
  const ran = await fixture.postern(["payments", "show", UNKNOWN]);
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toMatch(/is unknown: .* older than the journal remembers/);
});

test("a payment in review that is resolved as settled gets its job from the running gateway, and the audit says who", async () => {
  const id = await inReview();
  const args = ["--settled", "--transaction", TRANSACTION, "--reason", "seen on the explorer"];
  expect(await fixture.postern(["payments", "resolve", id, ...args])).toMatchObject({ code: 0 });
  await eventually("its call waits", async () =>
    (await fixture.x402().waiting()).some((call) => call.id === id),
  );
  const [call] = await fixture.x402().waiting();
  expect(call?.metadata["X-X402-TRANSACTION"]).toBe(TRANSACTION);
  expect((await fixture.x402().journal.find(id))?.settlement).toMatchObject({
    by: "operator",
    network: fixture.devnet.network,
  });
  const [entry] = await fixture.redis.xrange(keys.audit, "-", "+");
  const line = entry?.[1].join(" ") ?? "";
  expect(line).toContain(`action settle call_id ${id} by `);
  expect(line).toMatch(/by \S+@\S+ selection by id/);
  expect(line).toContain("reason seen on the explorer");
  expect(line).toContain(`transaction ${TRANSACTION}`);
  expect(await listed("--disputed")).toEqual([]);
});

test("a payment in review that is resolved as void loses its body and is open no more", async () => {
  const id = await inReview();
  expect(await fixture.postern(["payments", "resolve", id, "--void", "--reason", "x"])).toMatchObject({
    code: 0,
  });
  const payment = await fixture.x402().journal.find(id);
  expect(payment).toMatchObject({ state: "VOID", reason: "by the operator's decision", call: undefined });
  expect(await fixture.redis.scard(keys.openPayments(payer.address.toLowerCase()))).toBe(0);
});

test("the payer of a voided payment is told that an operator decided, and not the operator's reason", async () => {
  const headers = await fixture.x402().pay({ payer });
  const payload = Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString();
  const { nonce } = JSON.parse(payload).payload.authorization as { nonce: string };
  const id = await fixture.claim({ payer: payer.address, nonce });
  await fixture.x402().journal.markForReview(id, { now: Date.now(), reason: "x" });
  await fixture.postern(["payments", "resolve", id, "--void", "--reason", "this payer is a fraud"]);
  const answer = await fixture.x402().post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.void"]);
  expect(answer.text).toContain("by the operator's decision");
  expect(answer.text + JSON.stringify(answer.headers)).not.toContain("fraud");
});

test.each([
  ["settled", ["--settled", "--transaction", TRANSACTION]],
  ["void", ["--void"]],
])("a decision that is not in the audit is in the journal all the same: %s", async (_, verdict) => {
  const id = await inReview();
  await fixture.redis.set(keys.audit, "no stream");
  const resolve = (reason: string) =>
    fixture.postern(["payments", "resolve", id, ...verdict, "--reason", reason]);
  const first = await resolve("seen on the explorer");
  expect(first).toMatchObject({ code: 1, stdout: "" });
  expect(first.stderr).toContain(`of ${id} is done, but its audit line could not be written`);

  const told = /\bby \S+@\S+: seen on the explorer\n/;
  expect((await fixture.postern(["payments", "show", id])).stdout).toMatch(told);
  const [json] = jsonLines(await fixture.postern(["payments", "show", id, "--json"]));
  expect(json?.["decided"]).toEqual({
    by: expect.stringMatching(/^\S+@\S+$/),
    reason: "seen on the explorer",
  });
  const second = await resolve("another reason");
  expect(second.code).toBe(1);
  expect(second.stderr).toMatch(/nothing was changed\. It was decided /);
  expect(second.stderr).toMatch(told);
});

test.each([
  ["one that is settling", () => fixture.claim({ payer: payer.address }), "settling"],
  ["one whose call is queued", paid, "queued"],
])("only a payment in review can be resolved: %s is left as it is", async (_, make, state) => {
  const id = await make();
  const ran = await fixture.postern(["payments", "resolve", id, "--void", "--reason", "x"]);
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toContain(`${id} is ${state}: only a payment in review can be resolved`);
  expect((await stateOf(id))?.toLowerCase()).toBe(state);
  expect(await fixture.redis.xlen(keys.audit)).toBe(0);
});

test.each([
  [["--void"]],
  [["--reason", "x"]],
  [["--settled", "--reason", "x"]],
  [["--settled", "--void", "--transaction", TRANSACTION, "--reason", "x"]],
  [["--void", "--transaction", TRANSACTION, "--reason", "x"]],
  [["--settled", "--transaction", "0x12", "--reason", "x"]],
  [["--void", "--reason", " "]],
])("a verdict that is not clear exits 2: %j", async (args) => {
  expect(await fixture.postern(["payments", "resolve", UNKNOWN, ...args])).toMatchObject({ code: 2 });
});

test("reconcile has a running gateway look at once, and prints what came of it", async () => {
  const id = await fixture.claim({ payer: payer.address, nonce: await payOnChain(fixture.devnet, payer) });
  const ran = await fixture.postern(["payments", "reconcile", id]);
  expect(ran).toMatchObject({ code: 0 });
  expect(ran.stdout).toMatch(new RegExp(`^${id}: settling is now (settled|queued)\n$`));
  await eventually("queued", async () => (await stateOf(id)) === "QUEUED");
});

test("reconcile says when no gateway runs, and what there is nothing to look after of", async () => {
  const [open, review] = [await fixture.claim({ payer: payer.address }), await inReview()];
  await fixture.stopGateway();
  const ran = await fixture.postern([
    "payments",
    "reconcile",
    open,
    review,
    UNKNOWN,
    "--timeout",
    "1",
    "--json",
  ]);
  await fixture.startGateway();
  expect(ran.code).toBe(1);
  expect(ran.stderr).toMatch(/^no gateway has looked at 1 of them within 1 s: is a gateway running\?/);
  const byId = new Map(jsonLines(ran).map((line) => [line["call_id"], line]));
  expect(byId.get(open)).toMatchObject({ state: "settling", looked: false });
  expect(byId.get(review)).toMatchObject({ state: "review", looked: null });
  expect(byId.get(UNKNOWN)).toMatchObject({ state: null });
  expect(await fixture.postern(["payments", "reconcile"])).toMatchObject({ code: 2 });
  expect(await fixture.postern(["payments", "reconcile", open, "--all"])).toMatchObject({ code: 2 });
});

test("reconcile --all pushes what is under way and leaves calls in their queue alone", async () => {
  const [open, queued] = [await fixture.claim({ payer: payer.address }), await paid()];
  const dueAt = await fixture.redis.zscore(keys.paymentsDue, queued);
  const ran = await fixture.postern(["payments", "reconcile", "--all"]);
  expect(ran).toMatchObject({ code: 0, stdout: `${open}: looked at, still settling\n` });
  expect(await fixture.redis.zscore(keys.paymentsDue, queued)).toBe(dueAt);
});
