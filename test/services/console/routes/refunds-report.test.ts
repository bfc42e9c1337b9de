import { describe, expect, test } from "vitest";
import { Refused } from "../../../../services/producer/producer.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createPaymentList } from "../../../../shared/payments/list.ts";
import { openBackends, type QueueBackend } from "../../../../shared/queue/backend.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls, WHY } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { csvRows } from "../../../support/csv-rows.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { WORK } from "../../../support/results.ts";
import { gate } from "../../runner/gated-jobs.ts";
import { failPaid, USDC } from "../paid-failures.ts";
import { configureRefunds, refundable } from "../refundable.ts";

const REPORT = "/api/v1/payments/refunds/report";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("the report has a line for each payment whose call was not done, whatever its state, and changes nothing", async () => {
    configureRefunds(payments);
    const reason = 'it says "no", füür €\u0007\n=1+1';
    const ids = await refundable(payments, 3, new Refused(reason));
    const [failed = "", discarded = "", exported = ""] = ids;
    const service = await fixture.start({ configDir: payments.postern.configDir });
    await service.post(`/api/v1/failed/${discarded}/discard`, { reason: "x" });
    const order = { call_ids: [exported], reason: "x" };
    const made = (await service.post("/api/v1/payments/refunds/exports", order)).json();
    await payments.claim();
    const list = createPaymentList(payments.redis.partition);
    const before = await list.read(ids);
    const report = await service.get(REPORT, { as: "viewer" });
    expect([report.status, report.headers["content-type"], report.headers["content-disposition"]]).toEqual([
      ...[200, "text/csv; charset=utf-8; header=present"],
      expect.stringMatching(/^attachment; filename="refunds-report-\d{4}-\d\d-\d\d\.csv"$/),
    ]);
    expect(report.text.endsWith("\r\n")).toBe(true);
    const rows = csvRows(report.text);
    const common = {
      ...{ network: payments.devnet.network, token: "USDC", amount: "3.2", amount_units: "3200000" },
      ...{ payer: payments.payer.address.toLowerCase(), asset: payments.devnet.token },
      ...{ paid_to: payments.devnet.seller, transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/) },
      ...{
        claimed_at: expect.stringMatching(/^\d{4}-.*Z$/),
        state_since: expect.stringMatching(/^\d{4}-.*Z$/),
      },
      ...{ why: expect.stringContaining('it says "no", füür €'), job_ran: "no", payment: "confirmed" },
    };
    expect(rows).toEqual([
      { call_id: failed, state: "failed", ...common, export_id: "" },
      { call_id: discarded, state: "discarded", ...common, export_id: "" },
      { call_id: exported, state: "refund_pending", ...common, export_id: made["id"] },
    ]);
    expect(report.text).not.toMatch(/\p{Cc}(?<![\r\n])/u);
    expect(await list.read(ids)).toEqual(before);
  });
});

describe("limits of a report", () => {
  const redis = useRedis();
  const proxy = useRedisProxy(redis);
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  onlyInLongRun(() => {
    test("a report over 32 MiB gets 422, and a later request makes it again", async () => {
      const symbol = "x".repeat(2 * 1024 * 1024);
      const ids = await failPaid(
        calls,
        Array.from({ length: 17 }, () => ({ ...USDC, symbol })),
      );
      const { get } = await fixture.start();
      // Reading this much may take longer on a busy machine than a request waits for Redis.
      const refusal = await eventually("it is read", async () => {
        const answer = await get(REPORT);
        return answer.status === 503 ? undefined : refusalOf(answer);
      });
      expect(refusal).toEqual([422, "refund.report_too_large"]);
      for (const id of ids.slice(2)) await redis.client.del(keys.payment(id));
      expect(csvRows((await get(REPORT)).text).length).toBe(2);
    });
  });

  test("a report gets 429 while another one is being made", async () => {
    await failPaid(calls, [USDC]);
    const { get } = await fixture.start({ redisUrl: proxy.url });
    const rest = gate();
    const begun = gate();
    proxy.onCommand = (words) => {
      if (!words.some((word) => word.includes("failed"))) return undefined;
      begun.open();
      return { kind: "late-reply", until: rest.opened };
    };
    const first = get(REPORT);
    await begun.opened;
    const second = get(REPORT, { as: "viewer" });
    expect(refusalOf(await second)).toEqual([429, "request.rate_limited"]);
    rest.open();
    expect((await first).status).toBe(200);
    expect((await get(REPORT)).status).toBe(200);
  });
});

describe("texts of runners in a refund report", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const fixture = useOperator({ redis });

  test("no cell of the report is a formula, even if a runner's text begins like one", async () => {
    const symbols = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", " =1", "＝1", "a;=1", "plain", 'q"u,o'];
    await failPaid(
      calls,
      symbols.map((symbol) => ({ ...USDC, symbol })),
    );
    const { get } = await fixture.start();
    const { text } = await get(REPORT);
    const tokens = csvRows(text).map(({ token }) => token);
    expect(tokens.toSorted()).toEqual(
      [
        ...["'=1+1", "'+1", "'-1", "'@SUM(1)", "' =1", "' =1", "' =1", "'＝1", "a;'=1"],
        ...["plain", 'q"u,o'],
      ].toSorted(),
    );
  });

  test("the report has the last failure of a discarded call, even if no attempt had failed", async () => {
    const [id = ""] = await failPaid(calls, [{ ...USDC, amount: "1" }]);
    const found = await calls.find(id);
    await calls.replay(found, WHY);
    const backend = openBackends(redis.partition, WORK)(found.queue);
    await backend.fetch("worker:1", { bytes: undefined, alone: false });
    await calls.records.failed(found, Date.now());
    const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await backend.moveToFailed(job, "call.poison_pill: three processes ended", false, "worker:1", false);
    await calls.discard(await calls.find(id), WHY);
    const { get } = await fixture.start();
    const rows = csvRows((await get(REPORT)).text);
    expect(rows).toMatchObject([{ state: "discarded", why: "call.poison_pill: three processes ended" }]);
  });

  onlyInLongRun(() => {
    test("a report of 220 payments, which is more than a page, is complete and marks unreadable and uncertain ones", async () => {
      const ids = await failPaid(
        calls,
        Array.from({ length: 220 }, (_, i) => ({ ...USDC, amount: "1", isProven: i !== 1 })),
      );
      const [broken = "", unproven = "", unsure = ""] = ids;
      await redis.client.hset(keys.payment(broken), "terms", "{");
      await redis.client.hset(keys.record(unsure), "unsure", 1);
      const { get } = await fixture.start();
      const rows = csvRows((await get(REPORT)).text);
      expect(rows.map(({ call_id }) => call_id).toSorted()).toEqual(ids.toSorted());
      const of = (id: string) => rows.find(({ call_id }) => call_id === id);
      expect(of(broken)).toMatchObject({ amount: "", amount_units: "", payment: "unreadable" });
      expect(of(unproven)).toMatchObject({ amount_units: "1", amount: "", payment: "not confirmed" });
      expect(of(unsure)).toMatchObject({ job_ran: "perhaps", payment: "confirmed" });
    });
  });
});
