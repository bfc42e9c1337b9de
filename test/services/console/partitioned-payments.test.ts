import { beforeEach, expect, test } from "vitest";
import type { DevAccount, Hex } from "../../../services/dev/chain/chain.ts";
import { OverviewView } from "../../../shared/console/overview/overview.ts";
import type { PaymentPage } from "../../../shared/console/payments.ts";
import type { InFlightPage } from "../../../shared/console/reconcile.ts";
import type { RefundCheck } from "../../../shared/console/refund-check.ts";
import type { RefundExportView, RefundPage } from "../../../shared/console/refunds.ts";
import type { TransferMatches } from "../../../shared/console/transfer-matches.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { createRefunds } from "../../../shared/payments/refunds.ts";
import { adoptDeployment } from "../../../shared/redis/adopt.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { refusalOf, type TestOperator, useOperator } from "../../fixtures/console.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { PRICE } from "../../fixtures/x402.ts";
import { csvRows } from "../../support/csv-rows.ts";
import { payersIn } from "../../support/devnet.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { randomNonce } from "../../support/sign-payment.ts";
import { configureRefunds, payBack, refundable } from "./refundable.ts";
import { runIn } from "./run-of.ts";

const COUNT = 4;
const EXPORTS = "/api/v1/payments/refunds/exports";

const payments = usePayments({ partitions: COUNT });
const { redis, devnet } = payments;
const fixture = useOperator({ redis });

/** A payer in each partition. */
let payers: DevAccount[];
let service: TestOperator;
beforeEach(async () => {
  configureRefunds(payments);
  payers = await payersIn(payments.partitions, devnet);
  service = await fixture.start({ partitions: COUNT, configDir: payments.postern.configDir });
});

const why = { reason: "x" };
const indexOf = (id: string) => payments.partitions.indexOf(id);
const show = async (id: string) => (await service.get(`/api/v1/payments/${id}`)).json();
const overview = async () => OverviewView.parse((await service.get("/api/v1/overview")).json());

/** Returns the items of all pages of a list. */
async function pagesOf<Page extends { next: string | null }>(path: string): Promise<Page[]> {
  const pages: Page[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const page: Page = (await service.get(`${path}${next === "" ? "" : `&cursor=${next}`}`)).json<Page>();
    pages.push(page);
    next = page.next;
  }
  return pages;
}

/** Returns the result of the bulk operation that this request starts. */
async function resultOf<Result>(path: string, order: object = {}): Promise<Result> {
  const begun = await service.post(`/api/v1/payments/${path}`, order);
  const run = await runIn(service, String(begun.headers["location"]), "done");
  return (run as unknown as { result: Result }).result;
}

/** Claims payments of different payers in all partitions. Returns their ids in the order of the claims. */
async function claimMany(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++)
    ids.push(await payments.claim({ payer: `0x${String(i).padStart(40, "a")}`, nonce: randomNonce() }));
  expect(new Set(ids.map(indexOf)).size).toBe(COUNT);
  const claimedAt = async (id: string) =>
    (await payments.gateway.journal.findWithoutCall(id))?.claimedAt ?? 0;
  const claims = await Promise.all(ids.map(async (id) => ({ id, at: await claimedAt(id) })));
  return claims.toSorted((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1)).map(({ id }) => id);
}

const exportOf = async (order: object) => (await service.post(EXPORTS, { ...why, ...order })).json();

onlyInLongRun(() => {
  test("a list of payments pages through all partitions in one order, a filter by payer reads one partition, and counts cover all", async () => {
    const ids = await claimMany(24);
    const inReview = ids.filter((_, i) => i % 3 === 0);
    for (const id of inReview) await payments.gateway.journal.markForReview(id, "x");
    for (const [path, wanted] of [
      ["payments?limit=5", ids],
      ["payments?limit=1", ids],
      ["payments?limit=2&state=review", inReview],
      ["payments?limit=100&open=true", ids],
    ] as const) {
      const found = (await pagesOf<PaymentPage>(`/api/v1/${path}`)).flatMap((page) => page.payments);
      expect([path, found.map(({ call_id: id }) => id)]).toEqual([path, wanted.toReversed()]);
    }
    const settling = ids.filter((id) => !inReview.includes(id));
    const inFlight = await pagesOf<InFlightPage>("/api/v1/payments/in-flight?limit=3");
    expect(inFlight.flatMap(({ call_ids }) => call_ids)).toEqual(settling);
    const oldest = (await show(settling[0] ?? ""))["claimed_at"];
    expect((await overview()).payments).toMatchObject({
      settling: { count: settling.length, oldest_at: oldest },
      review: { count: inReview.length },
    });
    for (const id of ids.slice(0, 8)) {
      const { payer } = (await show(id))["terms"] as { payer: string };
      const [page] = await pagesOf<PaymentPage>(`/api/v1/payments?limit=5&payer=${payer}`);
      expect(page?.payments).toMatchObject([{ call_id: id }]);
    }
  });
});

test("a decision on a payment and a reconcile are done in its partition, with their audit lines", async () => {
  const ids = await Promise.all(payers.map(({ address: payer }) => payments.claim({ payer })));
  const reconciled = await Promise.all(
    ids.map((id) => service.post(`/api/v1/payments/${id}/reconcile`, { wait_ms: 5000 })),
  );
  expect(reconciled.map((answer) => answer.json())).toMatchObject(
    ids.map((id) => ({ call_id: id, state_before: "settling", looked: true })),
  );
  for (const id of ids) await payments.gateway.journal.markForReview(id, "x");
  for (const id of ids) {
    const resolved = await service.post(`/api/v1/payments/${id}/resolve`, { ...why, verdict: "void" });
    expect([resolved.status, (await show(id))["state"]]).toEqual([200, "void"]);
  }
  for (const id of ids) {
    const { entries } = (await service.get(`/api/v1/audit?call_id=${id}`)).json<{ entries: object[] }>();
    expect(entries).toMatchObject([{ action: "void" }, { action: "reconcile" }]);
  }
});

onlyInLongRun(() => {
  test("one bulk operation acknowledges disputed payments of all partitions, and the revenue sums all partitions", async () => {
    const ids: string[] = [];
    for (const payer of payers) ids.push(await payments.buy(payer));
    for (const id of ids) await payments.gateway.journal.markDisputed(id, "the chain says: expired");
    expect((await overview()).payments.disputed.count).toBe(COUNT);
    const begun = await service.post("/api/v1/payments/acknowledgements", { ...why, all: true });
    expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({ done: COUNT });
    expect((await overview()).payments.disputed.count).toBe(0);
    const { earned } = (await service.get("/api/v1/revenue?days=2")).json<{ earned: object[] }>();
    expect(earned).toMatchObject([
      { symbol: "USDC", job: "1/7", disputes: COUNT, disputed: String(BigInt(COUNT) * PRICE) },
    ]);
  });

  test("refunds of all partitions are listed, reported and exported in one file, and each is closed by the transfer to its payer", async () => {
    const ids = await refundable(payments, COUNT, undefined, payers);
    expect(ids.map(indexOf)).toEqual([0, 1, 2, 3]);
    const listed = await pagesOf<RefundPage>("/api/v1/payments/refunds?limit=3");
    expect(listed.flatMap((page) => page.payments).map(({ call_id: id }) => id)).toEqual(ids.toReversed());
    const { refunds } = (await overview()).payments;
    expect(refunds.failed).toMatchObject({ is_whole: true, confirmed: { calls: COUNT } });
    expect(refunds.failed.confirmed.amounts).toMatchObject([{ amount: String(BigInt(COUNT) * PRICE) }]);
    const rows = csvRows((await service.get("/api/v1/payments/refunds/report")).text);
    expect(rows.map((row) => [row["call_id"], row["why"]])).toEqual(
      ids.map((id) => [id, expect.stringContaining("no such job")]),
    );

    const made = await exportOf({ call_ids: ids.toReversed() });
    expect((made["rows"] as object[]).map((row) => row)).toMatchObject(
      ids.map((call_id, i) => ({
        call_id,
        payer: payers[i]?.address.toLowerCase(),
        state: "refund_pending",
      })),
    );
    const again = await service.get(`${EXPORTS}/${made["id"]}`, { as: "viewer" });
    expect(again.json()).toEqual(made);
    for (const id of ids) {
      const { entries } = (await service.get(`/api/v1/audit?call_id=${id}`)).json<{ entries: object[] }>();
      expect(entries).toMatchObject([{ action: "refund", selection: `export ${made["id"]}` }]);
    }

    const transactions: Hex[] = [];
    for (const payer of payers.slice(1)) transactions.push((await payBack(payments, payer)) as Hex);
    const { closed, open, problems } = await resultOf<RefundCheck>("refund-checks");
    expect(closed.map(({ call_id, transaction }) => [call_id, transaction])).toEqual(
      ids.slice(1).map((id, i) => [id, transactions[i]]),
    );
    expect([open.map(({ call_id: id }) => id), problems]).toEqual([[ids[0]], []]);
    const { earned } = (await service.get("/api/v1/revenue?days=2")).json<{ earned: object[] }>();
    expect(earned).toMatchObject([{ job: "1/7", refunds: 3, refunded: String(3n * PRICE) }]);

    const other = await payBack(payments, payers[1]);
    const { tokens } = await resultOf<TransferMatches>("audits", { from_block: "1" });
    const surplus = tokens[0]?.surplus_refunds.filter(({ payment }) => ids.includes(payment.call_id));
    expect(surplus).toMatchObject([{ transaction: other, payment: { call_id: ids[1] } }]);
  }, 60_000);

  test("if several exports run at once, each refund of any partition is in exactly one of them", async () => {
    const ids = await refundable(payments, 2 * COUNT, undefined, [...payers, ...payers]);
    const made = await Promise.all(Array.from({ length: 4 }, () => exportOf({ call_ids: ids })));
    const shown = made.flatMap((each) => (each["rows"] as RefundExportView["rows"] | undefined) ?? []);
    expect(shown.map(({ call_id: id }) => id).toSorted()).toEqual(ids.toSorted());
  }, 60_000);

  test("an export whose process dies between two partitions never grows after it was shown, and a later export has the rest", async () => {
    const ids = await refundable(payments, COUNT, undefined, payers);
    const found = (await Promise.all(
      ids.map((id) => payments.gateway.journal.findWithoutCall(id)),
    )) as Payment[];
    const id = `r_${"0d".repeat(16)}`;
    const partOf = (index: number) => {
      const payment = found[index] as Payment;
      const { asset, symbol, payer, amount, network } = payment.terms;
      const line = {
        at: 1,
        action: "refund",
        callId: payment.id,
        by: "me",
        selection: `export ${id}`,
      } as const;
      return createRefunds(payments.partitions.all[index] as Partition).export({
        ...{ id, at: 1, by: "me", network, block: 1n, effectUnknown: false, lineOf: () => line },
        cases: [{ payment, row: { call: payment.id, asset, symbol, decimals: 6, payer, amount } }],
      });
    };
    await partOf(1);
    const rowsOf = (made: Record<string, unknown>) =>
      (made["rows"] as RefundExportView["rows"]).map(({ call_id }) => call_id);
    expect(rowsOf((await service.get(`${EXPORTS}/${id}`, { as: "viewer" })).json())).toEqual([ids[1]]);
    // The command of the dead process to another partition arrives late.
    expect(await partOf(2)).toBeUndefined();
    expect(rowsOf(await exportOf({ id, call_ids: ids }))).toEqual([ids[1]]);
    expect(rowsOf((await service.get(`${EXPORTS}/${id}`)).json())).toEqual([ids[1]]);
    const rest = await exportOf({ call_ids: ids });
    expect(rowsOf(rest)).toEqual([ids[0], ids[2], ids[3]]);
    expect(refusalOf(await service.post(EXPORTS, { ...why, call_ids: ids }))).toEqual([
      ...[409, "payment.undecidable"],
    ]);
  }, 60_000);

  test("an audit of the chain matches the payments of all partitions, and names the payments of each", async () => {
    await devnet.chain.mine();
    const from_block = String((await devnet.chain.client.getBlockNumber()) + 1n);
    const ids: string[] = [];
    for (const payer of payers) ids.push(await payments.buy(payer));
    const [, unknownTo, unsettledOf] = payers as [DevAccount, DevAccount, DevAccount];
    const nonce = await payments.payOnChain(PRICE, unknownTo);
    const unsettled = await payments.claim({
      payer: unsettledOf.address,
      nonce: await payments.payOnChain(PRICE, unsettledOf),
    });
    const { tokens } = await resultOf<TransferMatches>("audits", { from_block });
    expect(tokens).toMatchObject([
      {
        ...{ matched: COUNT, matches: ids.map((call_id) => ({ call_id })), missing: [], more: 0 },
        orphans: [{ nonce, from: unknownTo.address.toLowerCase() }],
        unsettled: [{ payment: { call_id: unsettled } }],
      },
    ]);
  });

  test("jobs are sold again in all partitions once an audit covers the unaudited time", async () => {
    const adopt = (partition: Partition) =>
      adoptDeployment(partition, { id: "d", replaced: undefined, unauditedSince: Date.now() });
    await Promise.all(payments.partitions.all.map(adopt));
    const unaudited = () =>
      Promise.all(
        payments.partitions.all.map(({ redis, keys }) => redis.hexists(keys.deployment, "unaudited")),
      );
    expect(await unaudited()).toEqual([1, 1, 1, 1]);
    await resultOf("audits", { from_block: "0" });
    expect(await unaudited()).toEqual([0, 0, 0, 0]);
  });
});

test("a transfer pays for one job in the whole deployment, that of its sender, even if an operator decides otherwise", async () => {
  const [paying, other] = [payers[0], payers[3]] as [DevAccount, DevAccount];
  const nonce = await payments.payOnChain(PRICE, paying);
  const [transfer] = await devnet.chain.chargesOf(paying.address);
  const transaction = String(transfer?.transaction);
  const review = async (payer: string, by = randomNonce()) => {
    const id = await payments.claim({ payer, nonce: by });
    await payments.gateway.journal.markForReview(id, "x");
    return id;
  };
  const its = await review(paying.address, nonce);
  // These are payments of the same payer, of others with and without the same nonce, and one whose payer is written
  // in other letters.
  const others = [
    await review(paying.address),
    await review(other.address, nonce),
    await review(other.address),
  ];
  const settle = (id: string) =>
    service.post(`/api/v1/payments/${id}/resolve`, { ...why, verdict: "settled", transaction });
  for (const id of others) expect(refusalOf(await settle(id))).toEqual([409, "payment.not_shown"]);
  expect((await settle(its)).status).toBe(200);
  for (const id of others) expect(refusalOf(await settle(id))).toEqual([409, "payment.not_shown"]);
  await eventually("only its call waits", async () => (await payments.gateway.waiting()).length === 1);
  const states = await Promise.all(others.map(async (id) => (await show(id))["state"]));
  expect(states).toEqual(["review", "review", "review"]);
});
