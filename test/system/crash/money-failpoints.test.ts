import { beforeEach, describe, expect, test } from "vitest";
import type { AuditView, RefundCheckView } from "../../../shared/console/bulk-operations.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { useOperator } from "../../fixtures/console.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { auditOf } from "../../services/console/audit-of.ts";
import { configureRefunds, payBack, refundable } from "../../services/console/refundable.ts";
import { acceptSlowToken } from "../../services/console/slow-token.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { endLeases, startConsole } from "./start-console.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });
const ends = useEnds();
const AUDITS = "/api/v1/payments/audits";
const CHECKS = "/api/v1/payments/refund-checks";
const EXPORTS = "/api/v1/payments/refunds/exports";

const start = (failpoint?: Failpoint) => startConsole(payments.postern, failpoint);

/** Starts the next process, which need not wait for the lease of the killed one. */
async function startNext() {
  await endLeases(payments.redis.client);
  return start();
}

onlyInLongRun(() => {
  describe("an audit of the payments", () => {
    /** First block of the test. Transfers of other tests are before it. */
    let from_block: string;
    beforeEach(async () => {
      const { chain } = payments.devnet;
      await chain.mine();
      from_block = String((await chain.client.getBlockNumber()) + 1n);
      await payments.buy();
      await payments.payOnChain();
    });

    const found = ({ result }: AuditView) =>
      result?.tokens.map(({ symbol, matched, orphans }) => [symbol, matched, orphans.length]);

    test.each<Failpoint>(["console.after_taken", "console.after_begun", "console.before_ended"])(
      "that is killed at %s is finished by the next process, and reports each transfer once",
      async (point) => {
        const killed = await start(point);
        await killed.begin(AUDITS, { from_block });
        expect(await killed.exit).toMatchObject({ signal: "SIGKILL" });
        const run = await (await startNext()).runIn<AuditView>("audit", "done");
        expect([found(run), run.failure]).toEqual([[["USDC", 1, 1]], null]);
      },
    );

    test("that is killed halfway, with findings on disk, starts again and reports each transfer once", async () => {
      const node = await acceptSlowToken(payments);
      ends.defer(node.close);
      const killed = await start();
      await killed.begin(AUDITS, { from_block });
      await eventually("a part is on disk", async () => {
        const run = await killed.onlyOperation<AuditView>("audit");
        return run?.result?.tokens.length === 2 && node.held() === 1;
      });
      await killed.kill("SIGKILL");
      node.release();
      // This process waits until the lease has expired.
      const run = await (await start()).runIn<AuditView>("audit", "done");
      expect(found(run)).toEqual([
        ["USDC", 1, 1],
        ["EURC", 0, 0],
      ]);
    });

    test("that was cancelled does not start again if its process is killed before it has ended", async () => {
      const node = await acceptSlowToken(payments);
      ends.defer(node.close);
      const killed = await start("console.before_ended");
      await killed.begin(AUDITS, { from_block });
      const begun = await killed.onlyOperation("audit");
      await eventually("it asks", () => node.held() === 1);
      // The kill may come before the answer.
      await killed.ask("DELETE", `/api/v1/bulk/${begun?.id}`).catch(() => undefined);
      expect(await killed.exit).toMatchObject({ signal: "SIGKILL" });
      const { length: asked } = node.asked;
      const next = await startNext();
      const run = await next.runIn<AuditView>("audit", "cancelled");
      expect([found(run)?.[0], node.asked.length]).toEqual([["USDC", 1, 1], asked]);
    });
  });
});

describe("refunds", () => {
  let ids: string[];
  beforeEach(async () => {
    configureRefunds(payments);
    ids = await refundable(payments, 2);
  });

  const order = (id: string) => ({ id, call_ids: ids, reason: "a test" });

  test("an export killed at money.after_exported can be found by its chosen id, a repeat returns the same export with its audit entries, and nothing is exported twice", async () => {
    const id = `r_${"0b".repeat(16)}`;
    const killed = await start("money.after_exported");
    await expect(killed.ask("POST", EXPORTS, order(id))).rejects.toThrow();
    expect(await killed.exit).toMatchObject({ signal: "SIGKILL" });
    const next = await start();
    const found = await next.ask("GET", `${EXPORTS}/${id}`);
    const rows = ids.map((call_id) => expect.objectContaining({ call_id, state: "refund_pending" }));
    expect([found.status, found.json()]).toMatchObject([200, { id, rows }]);
    const other = await next.ask("POST", EXPORTS, order(`r_${"0c".repeat(16)}`));
    expect([other.status, other.json()["code"]]).toEqual([409, "payment.undecidable"]);
    const same = await next.ask("POST", EXPORTS, order(id));
    expect([same.status, same.json()]).toEqual([201, found.json()]);
    const lines = ids.map((call_id) => ({ action: "refund", call_id, reason: "a test" }));
    expect(await auditOf(payments.redis)).toMatchObject(lines);
  });

  onlyInLongRun(() => {
    const POINTS = [
      "money.after_closed",
      "console.after_begun",
      "console.after_taken",
      "console.before_ended",
    ] as const;

    test.each<Failpoint>(POINTS)(
      "a search for them that is killed at %s is repeated, and each transfer closes one case",
      async (point) => {
        const before = await fixture.start({ configDir: payments.postern.configDir });
        await before.post(EXPORTS, order(`r_${"0a".repeat(16)}`));
        await before.close();
        const transactions = [await payBack(payments), await payBack(payments)];
        const killed = await start(point);
        await killed.begin(CHECKS, {});
        expect(await killed.exit).toMatchObject({ signal: "SIGKILL" });
        const run = await (await startNext()).runIn<RefundCheckView>("refund-check", "done");
        expect(run).toMatchObject({ failure: null, result: { open: [], problems: [] } });
        const journal = new PaymentJournal(payments.redis.partition);
        const closed = await Promise.all(ids.map((id) => journal.findWithoutCall(id)));
        expect(closed.map((payment) => payment?.state)).toEqual(["REFUNDED", "REFUNDED"]);
        expect(closed.map((payment) => payment?.refunded?.transaction).toSorted()).toEqual(
          transactions.toSorted(),
        );
        const lines = (await auditOf(payments.redis)).filter(({ action }) => action === "close_refund");
        expect(lines.map(({ call_id, transaction }) => [call_id, transaction]).toSorted()).toEqual(
          closed.map((payment) => [payment?.id, payment?.refunded?.transaction]).toSorted(),
        );
      },
    );
  });
});
