import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { beforeEach, describe, expect, test } from "vitest";
import { shoot } from "../../fixtures/chromium.ts";
import type { TestOperator, TOKENS } from "../../fixtures/console.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { csvRows } from "../../support/csv-rows.ts";
import { needs } from "../../support/needs.ts";
import { auditOf } from "../console/audit-of.ts";
import { configureRefunds, payBack, refundable } from "../console/refundable.ts";
import { acceptSlowToken } from "../console/slow-token.ts";

describe("the page of payment audits and refunds", needs("chromium"), () => {
  const payments = usePayments();
  const ends = useEnds();
  const { open, start } = useOperatorPage({ redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  async function show(
    view: "audit" | "refunds",
    as: keyof typeof TOKENS = "operator",
  ): Promise<{ page: Page; service: TestOperator }> {
    const service = await start({ configDir: payments.postern.configDir });
    return { service, page: await open({ at: service.address, hash: `#/payments?view=${view}`, as }) };
  }

  async function exportRefund({ post }: TestOperator, id: string): Promise<void> {
    const order = { call_ids: [id], reason: "their runner is gone" };
    expect((await post("/api/v1/payments/refunds/exports", order)).status).toBe(201);
  }

  /** Pays the seller without any gateway seeing the payment. */
  async function payUnseen(): Promise<string> {
    const nonce = await payments.payOnChain();
    const transfers = await payments.devnet.chain.transfers(payments.devnet.seller);
    return String(transfers.find((each) => each.nonce === nonce)?.transaction);
  }

  test("an audit finds a transfer without a payment, and names its transaction", async () => {
    await payments.buy();
    const transaction = await payUnseen();
    const { page } = await show("audit");
    await page.getByText("Not matched from this page yet").waitFor();
    await page.getByRole("button", { name: "Match now" }).click();
    await page.getByText("done", { exact: true }).waitFor();
    const orphan = page
      .getByRole("region", { name: /^USDC on/ })
      .getByRole("listitem")
      .filter({ has: page.getByTitle(transaction) });
    expect(await orphan.textContent()).toMatch(/^orphan 3\.2 USDC from .* payment c_.* is unknown$/);
    await shoot(page, "audit-done");
    expect(await violationsOf(page)).toEqual([]);
  });

  test("a paid call that its runner refused is listed among the due refunds, with a link to its possible actions", async () => {
    const [id = ""] = await refundable(payments);
    const { page } = await show("refunds");
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.waitFor();
    const cells = row.getByRole("cell");
    const named = async (name: string) =>
      cells.nth(
        await page
          .getByRole("columnheader")
          .allTextContents()
          .then((all) => all.indexOf(name)),
      );
    expect(await (await named("Job ran")).textContent()).toBe("no");
    expect(await (await named("Payment")).textContent()).toBe("confirmed");
    await row.getByText("paid, call failed").waitFor();
    await row.getByTitle(payments.payer.address.toLowerCase()).waitFor();
    await shoot(page, "refunds-due");
    expect(await violationsOf(page)).toEqual([]);
    await row.getByRole("link").and(page.getByTitle(id)).click();
    const choices = page.getByRole("region", { name: "Actions" });
    await choices.getByRole("button", { name: "Replay…" }).waitFor();
    await choices.getByRole("button", { name: "Discard…" }).waitFor();
    await choices.getByRole("link", { name: "View refunds" }).click();
    await row.waitFor();
  });

  test("due refunds are among the problems with their total, and a downloaded report lists all of them and changes nothing", async () => {
    const [discarded = "", exported = ""] = await refundable(payments, 4);
    const service = await start({ configDir: payments.postern.configDir });
    await service.post(`/api/v1/failed/${discarded}/discard`, { reason: "x" });
    await exportRefund(service, exported);
    const page = await open({ at: service.address });
    const attention = page.getByRole("region", { name: "Needs attention" }).getByRole("listitem");
    await attention
      .filter({ hasText: "Paid calls failed: 6.4 USDC for 2 calls. Replay the calls or refund them." })
      .waitFor();
    await shoot(page, "refunds-need-somebody");
    const places = page.getByRole("navigation").getByRole("link", { name: "Payments 3 need attention" });
    await places.waitFor();
    await attention.filter({ hasText: "Refunds due: 3.2 USDC for 1 call" }).getByRole("link").click();
    const due = page.getByRole("button", { name: "Refunds 3 need attention" });
    expect(await due.textContent()).toBe("Refunds 3 need attention");
    const total = (title: string) => page.locator("dl.totals > div").filter({ hasText: title });
    await total("Refunds due").filter({ hasText: "3.2 USDC" }).getByText("1 payment for").waitFor();
    await total("Replay or refund").filter({ hasText: "6.4 USDC" }).waitFor();
    await total("Refunds exported")
      .filter({ hasText: "3.2 USDC" })
      .getByText("1 refund waiting for a transfer")
      .waitFor();
    await shoot(page, "refunds-totals");
    expect(await violationsOf(page)).toEqual([]);
    const begun = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download CSV" }).click();
    const download = await begun;
    expect(download.suggestedFilename()).toMatch(/^refunds-report-.*\.csv$/);
    const rows = csvRows(readFileSync(await download.path(), "utf8"));
    expect(rows.map(({ state }) => state).toSorted()).toEqual([
      "discarded",
      "failed",
      "failed",
      "refund_pending",
    ]);
  });

  test("an incomplete total is shown as a minimum, wherever its number appears", async () => {
    const [id = ""] = await refundable(payments);
    const service = await start({ configDir: payments.postern.configDir });
    await service.post(`/api/v1/failed/${id}/discard`, { reason: "x" });
    const { client } = payments.redis;
    // More calls than one count reads; all of them are discarded later.
    const more = Array.from({ length: 10_000 }, (_, i) => `c_${String(i).padStart(32, "0")}`);
    await Promise.all(more.map((each) => client.hset(keys.record(each), "st", "INJECTED")));
    await client.zadd(keys.paymentsDiscarded, ...more.flatMap((each, i) => [Date.now() + 60_000 + i, each]));
    const page = await open({ at: service.address, hash: "#/payments?view=refunds" });
    const tile = page.locator("dl.totals > div").filter({ hasText: "Refunds due" });
    await tile.getByText("at least 3.2 USDC").waitFor();
    await tile.getByText("at least 1 payment for discarded calls").waitFor();
    await page.getByRole("button", { name: "Refunds at least 1 needs attention" }).waitFor();
    await page.getByRole("link", { name: "Payments at least 1 needs attention" }).waitFor();
    await client.zadd(keys.paymentsDiscarded, Date.now() + 120_000, id);
    await tile.getByText("unknown").waitFor({ timeout: 60_000 });
  });

  test("totals of refunds say how old they are and why while they cannot be read again", async () => {
    const { page } = await show("audit");
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Refunds" }).click();
    await page.locator("dl.totals").getByText("Refunds due").waitFor();
    await page.route("**/api/v1/overview", (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.getByText(/^As of /).waitFor();
    const note = page.getByRole("alert").filter({ hasText: /Not updated since/ });
    await note.getByText("Redis is away").waitFor();
  });

  test("a refused first search of the chain is reported", async () => {
    const { page } = await show("refunds");
    await page.getByText("No refunds", { exact: true }).waitFor();
    await page.route("**/api/v1/payments/refund-checks", (route) =>
      route.request().method() === "POST"
        ? route.fulfill({ status: 409, json: { code: "x", detail: "Another look is under way" } })
        : route.continue(),
    );
    await page.getByRole("button", { name: "Check chain now" }).click();
    await page.getByRole("alert").getByText("Another look is under way").waitFor();
  });

  test("revenue in two contracts with one symbol on one network is distinguished by the contracts", async () => {
    const earned = { day: "2026-01-01", network: "eip155:1", symbol: "USDC", decimals: 6, job: "1/7" };
    const sums = { payments: 1, amount: "1000000", disputes: 0, disputed: "0", refunds: 0, refunded: "0" };
    const assets = [`0x${"a1".repeat(20)}`, `0x${"b2".repeat(20)}`];
    const { page } = await show("audit");
    await page.route("**/api/v1/revenue?*", (route) =>
      route.fulfill({ json: { earned: assets.map((asset) => ({ ...earned, ...sums, asset })) } }),
    );
    await page.getByRole("button", { name: "Revenue" }).click();
    await page.getByRole("region", { name: "USDC on eip155:1 (0xa1a1…a1a1)", exact: true }).waitFor();
    await page.getByRole("region", { name: "USDC on eip155:1 (0xb2b2…b2b2)", exact: true }).waitFor();
  });

  test("an audit shows its findings while it runs, and can be cancelled", async () => {
    const transaction = await payUnseen();
    ends.defer((await acceptSlowToken(payments)).close);
    const { page } = await show("audit");
    await page.getByRole("button", { name: "Match now" }).click();
    const [usdc, eurc] = ["USDC", "EURC"].map((name) =>
      page.getByRole("region", { name: new RegExp(`^${name} on`) }),
    );
    await usdc?.getByTitle(transaction).waitFor();
    await eurc?.getByText("incomplete").waitFor();
    await page.getByText("running", { exact: true }).waitFor();
    expect(await page.getByRole("button", { name: "Running" }).isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    await shoot(page, "audit-cancelled");
    expect(await usdc?.getByTitle(transaction).count()).toBe(1);
    expect(await eurc?.getByText("incomplete").count()).toBe(1);
    expect(await page.getByRole("button", { name: "Match now" }).isEnabled()).toBe(true);
  });

  test("a double click starts only one audit, and a viewer has no button for it", async () => {
    const { page, service } = await show("audit");
    await page.getByRole("button", { name: "Match now" }).dblclick();
    await page.getByText("done", { exact: true }).waitFor();
    const { runs } = (await service.get("/api/v1/bulk?kind=audit")).json<{ runs: unknown[] }>();
    expect(runs).toHaveLength(1);
    const viewer = await open({ at: service.address, hash: "#/payments?view=audit", as: "viewer" });
    await viewer.getByText("done", { exact: true }).waitFor();
    expect(await viewer.getByRole("button", { name: /Match now|Cancel/ }).count()).toBe(0);
  });

  test("a refund whose call may have been done says so, because an operator must decide about it", async () => {
    await refundable(payments, 1, new Error("no answer"));
    const { page } = await show("refunds", "viewer");
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.getByText("perhaps").waitFor();
    await row.getByText("confirmed").waitFor();
    expect(await page.getByRole("button", { name: "Check chain now" }).count()).toBe(0);
  });

  test("a due refund is found even among many newer payments, and no absence is reported before all payments were searched", async () => {
    const [id = ""] = await refundable(payments);
    const { client } = payments.redis;
    // More payments than one answer searches.
    const newer = Array.from({ length: 10_050 }, (_, i) => `c_${String(i).padStart(32, "0")}`);
    await client.zadd(keys.payments, ...newer.flatMap((each, i) => [Date.now() + i, each]));
    await Promise.all(newer.map((each) => client.hset(keys.record(each), "st", "INJECTED")));
    const { page } = await show("audit");
    const isOlder = (url: URL) => url.pathname.endsWith("/refunds") && url.searchParams.has("cursor");
    await page.route(isOlder, (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.getByRole("button", { name: "Refunds" }).click();
    const refusal = page.getByRole("alert").filter({ hasText: "Older payments could not be read" });
    await refusal.getByText("Redis is away").waitFor();
    await page.getByText("None in the payments searched so far.").waitFor();
    expect(await page.getByText("No refunds", { exact: true }).count()).toBe(0);
    await shoot(page, "refunds-not-all");
    await page.unroute(isOlder);
    await page.getByRole("row").getByTitle(id).waitFor();
    expect(await refusal.count()).toBe(0);
  });

  test("an exported refund is searched for on the chain, and leaves the list once it is paid back", async () => {
    const [id = ""] = await refundable(payments);
    const { page, service } = await show("refunds");
    await exportRefund(service, id);
    const paidBack = page.getByRole("region", { name: "Refund check" });
    const look = paidBack.getByRole("button", { name: "Check chain now" });
    await look.click();
    await paidBack.getByText("0 refunds closed, 1 not yet on the chain.").waitFor();
    await page.getByRole("row").getByText("refund exported").waitFor();
    await payBack(payments);
    await look.click();
    await paidBack.getByText("1 refund closed, 0 not yet on the chain.").waitFor();
    await page.getByText("No refunds", { exact: true }).waitFor();
    await page.evaluate("location.hash = '#/payments?view=revenue'");
    const earned = page.getByRole("region", { name: "By job, last 30 days" }).getByRole("row").nth(1);
    await earned.waitFor();
    expect(await earned.getByRole("cell").allTextContents()).toEqual([
      "1/7",
      "0",
      "0 USDC",
      "",
      "–",
      "3.2 USDC",
    ]);
  });

  test("a refund whose call was done nevertheless is highlighted, and is withdrawn with a reason", async () => {
    const [id = ""] = await refundable(payments);
    const { page, service } = await show("refunds");
    await exportRefund(service, id);
    await payments.redis.client.hset(keys.record(id), "late", Date.now()); // as a producer does whose 2xx comes too late
    await page.reload();
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.getByText("yes, after the export").waitFor();
    await row.getByRole("link").and(page.getByTitle(id)).click();
    await page.getByRole("button", { name: "Withdraw refund…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the job was done");
    await shoot(page, "refund-withdrawn");
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Withdraw refund", exact: true }).click();
    await page.getByText("paid, injected").waitFor();
    const withdrawn = { action: "withdraw", call_id: id, by: "otto", reason: "the job was done" };
    expect(await auditOf(payments.redis)).toContainEqual(expect.objectContaining(withdrawn));
  });
});
