import type { Page } from "playwright-core";
import { beforeEach, describe, expect, test } from "vitest";
import { shoot } from "../../fixtures/chromium.ts";
import { useEnds } from "../../fixtures/ends.ts";
import type { TestOperator, TOKENS } from "../../fixtures/operator.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";
import { auditOf } from "../operator/audit-of.ts";
import { configureRefunds, payBack, refundable } from "../operator/refundable.ts";
import { acceptSlowToken } from "../operator/slow-token.ts";

describe("the page of audits and refunds", needs("chromium"), () => {
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

  /** The money reaches us, and no gateway has seen its payment. */
  async function payUnseen(): Promise<string> {
    const nonce = await payments.payOnChain();
    const transfers = await payments.devnet.chain.transfers(payments.devnet.seller);
    return String(transfers.find((each) => each.nonce === nonce)?.transaction);
  }

  test("an audit finds money that no payment explains, and says in which transaction", async () => {
    await payments.buy();
    const transaction = await payUnseen();
    const { page } = await show("audit");
    await page.getByText("No audit has run yet").waitFor();
    await page.getByRole("button", { name: "Run an audit now" }).click();
    await page.getByText("done", { exact: true }).waitFor();
    const orphan = page
      .getByRole("region", { name: /^USDC on/ })
      .getByRole("listitem")
      .filter({ has: page.getByTitle(transaction) });
    expect(await orphan.textContent()).toMatch(/^orphan 3\.2 USDC from .* payment c_.* is unknown here$/);
    await shoot(page, "audit-done");
    expect(await violationsOf(page)).toEqual([]);
  });

  test("a paid call that its runner refused is among the refunds that are due, and leads to what can be done", async () => {
    const [id = ""] = await refundable(payments);
    const { page } = await show("refunds");
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.getByText("no, for certain").waitFor();
    await row.getByText("paid, call failed").waitFor();
    await row.getByTitle(payments.payer.address.toLowerCase()).waitFor();
    await shoot(page, "refunds-due");
    expect(await violationsOf(page)).toEqual([]);
    await row.getByRole("link").and(page.getByTitle(id)).click();
    const choices = page.getByRole("region", { name: "What can be done" });
    await choices.getByRole("button", { name: "Replay…" }).waitFor();
    await choices.getByRole("button", { name: "Discard…" }).waitFor();
    await choices.getByRole("link", { name: "Refunds" }).click();
    await row.waitFor();
  });

  test("an audit shows what it has found while it goes on, and is cancelled where it is", async () => {
    const transaction = await payUnseen();
    ends.defer((await acceptSlowToken(payments)).close);
    const { page } = await show("audit");
    await page.getByRole("button", { name: "Run an audit now" }).click();
    const [usdc, eurc] = ["USDC", "EURC"].map((name) =>
      page.getByRole("region", { name: new RegExp(`^${name} on`) }),
    );
    await usdc?.getByTitle(transaction).waitFor();
    await eurc?.getByText("not whole").waitFor();
    await page.getByText("running", { exact: true }).waitFor();
    expect(await page.getByRole("button", { name: "Running" }).isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    await shoot(page, "audit-cancelled");
    expect(await usdc?.getByTitle(transaction).count()).toBe(1);
    expect(await eurc?.getByText("not whole").count()).toBe(1);
    expect(await page.getByRole("button", { name: "Run an audit now" }).isEnabled()).toBe(true);
  });

  test("a button that is clicked twice begins one audit, and a viewer has none", async () => {
    const { page, service } = await show("audit");
    await page.getByRole("button", { name: "Run an audit now" }).dblclick();
    await page.getByText("done", { exact: true }).waitFor();
    const { runs } = (await service.get("/api/v1/payments/audits")).json<{ runs: unknown[] }>();
    expect(runs).toHaveLength(1);
    const viewer = await open({ at: service.address, hash: "#/payments?view=audit", as: "viewer" });
    await viewer.getByText("done", { exact: true }).waitFor();
    expect(await viewer.getByRole("button", { name: /audit now|Cancel/ }).count()).toBe(0);
  });

  test("of a call that may have been done it says so, since its refund is somebody's decision", async () => {
    await refundable(payments, 1, new Error("no answer"));
    const { page } = await show("refunds", "viewer");
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.getByText("it may have").waitFor();
    await row.getByText("effect unknown").waitFor();
    expect(await page.getByRole("button", { name: "Look on the chain now" }).count()).toBe(0);
  });

  test("a refund is due however many newer payments there are, and none is said to be due before all were looked at", async () => {
    const [id = ""] = await refundable(payments);
    const { client } = payments.redis;
    // More than an answer looks at.
    const newer = Array.from({ length: 10_050 }, (_, i) => `c_${String(i).padStart(32, "0")}`);
    await client.zadd(keys.payments, ...newer.flatMap((each, i) => [Date.now() + i, each]));
    await Promise.all(newer.map((each) => client.hset(keys.record(each), "st", "INJECTED")));
    const { page } = await show("audit");
    const isOlder = (url: URL) => url.pathname.endsWith("/refunds") && url.searchParams.has("cursor");
    await page.route(isOlder, (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.getByRole("button", { name: "Refunds" }).click();
    const refusal = page.getByRole("alert").filter({ hasText: "Older payments could not be looked at" });
    await refusal.getByText("Redis is away").waitFor();
    await page.getByText("None among those that were looked at.").waitFor();
    expect(await page.getByText("No refund is due").count()).toBe(0);
    await shoot(page, "refunds-not-all");
    await page.unroute(isOlder);
    await refusal.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("row").getByTitle(id).waitFor();
    expect(await refusal.count()).toBe(0);
  });

  test("a refund that is exported is looked for on the chain, and is off the list once it is paid back", async () => {
    const [id = ""] = await refundable(payments);
    const { page, service } = await show("refunds");
    await exportRefund(service, id);
    const paidBack = page.getByRole("region", { name: "Paid back" });
    const look = paidBack.getByRole("button", { name: "Look on the chain now" });
    await look.click();
    await paidBack.getByText("0 cases closed, 1 not paid back yet.").waitFor();
    await page.getByRole("row").getByText("refund exported").waitFor();
    await payBack(payments);
    await look.click();
    await paidBack.getByText("1 case closed, 0 not paid back yet.").waitFor();
    await page.getByText("No refund is due").waitFor();
  });

  test("a refund whose call was done all the same stands out, and is taken off its export with a reason", async () => {
    const [id = ""] = await refundable(payments);
    const { page, service } = await show("refunds");
    await exportRefund(service, id);
    await payments.redis.client.hset(keys.record(id), "late", Date.now()); // as a producer whose 2xx comes too late
    await page.reload();
    const row = page.getByRole("row").filter({ hasText: "3.2 USDC" });
    await row.getByText("its runner has done it since").waitFor();
    await row.getByRole("link").and(page.getByTitle(id)).click();
    await page.getByRole("button", { name: "Take it off…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the job was done");
    await shoot(page, "refund-withdrawn");
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Take it off", exact: true }).click();
    await page.getByText("paid, delivered").waitFor();
    const withdrawn = { action: "withdraw", call_id: id, by: "otto", reason: "the job was done" };
    expect(await auditOf(payments.redis)).toContainEqual(expect.objectContaining(withdrawn));
  });
});
