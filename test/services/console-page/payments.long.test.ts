import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { devToken } from "../../../shared/dev/config.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { JUST_NOW, signIn, useOperatorPage } from "../../fixtures/console-page.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { violationsOf } from "../../support/axe.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { needs } from "../../support/needs.ts";
import { tokenTable } from "../../support/rate-tokens.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { configureRefunds, refundable } from "../console/refundable.ts";
import { paidInReview } from "../console/routes/resolve-payment/decide.ts";

describe("the page of payments", needs("chromium"), () => {
  const payments = usePayments();
  const { open, start } = useOperatorPage({ redis: payments.redis });
  const reports = useReports(payments.redis);
  const service = () => start({ configDir: payments.postern.configDir });
  const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

  /** Adds payments whose jobs are done, with claims from this time on. */
  async function addDone(count: number, at: number): Promise<void> {
    const { client } = payments.redis;
    const ids = Array.from({ length: count }, (_, i) => `c_${at}${String(i).padStart(19, "0")}`);
    await client.zadd(keys.payments, ...ids.flatMap((id, i) => [at + i, id]));
    await Promise.all(ids.map((id) => client.hset(keys.record(id), "st", "INJECTED")));
  }

  test("a payment in review comes first with its reason and actions, and its call runs once its transaction is confirmed", async () => {
    const { id, transaction } = await paidInReview(payments);
    const { address: at } = await service();
    const page = await open({ at });
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByRole("link", { name: "1 payment in review needs a decision" }).click();
    const undecided = page.getByRole("region", { name: "Decisions needed" });
    await undecided.getByText("3.2 USDC").waitFor();
    await shoot(page, "payments-in-review");
    await undecided.getByRole("link", { name: "Decide" }).click();
    await page.getByText(/ was asked once to settle it, at /).waitFor();
    await page.getByRole("button", { name: "Decide…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { name: /No, and it will not be paid/ }).check();
    await dialog.getByPlaceholder("The payer says that they did not send it").waitFor();
    await dialog.getByRole("radio", { name: /Yes, it is paid/ }).check();
    await dialog.getByPlaceholder("Seen in the explorer: the transfer of 12:04").waitFor();
    await dialog.getByLabel("Reason").fill("seen on the explorer");
    expect(await dialog.getByRole("button", { name: "Mark as paid" }).isDisabled()).toBe(true);
    await dialog.getByRole("textbox", { name: "Transaction" }).fill(`0x${"0".repeat(64)}`);
    await dialog.getByRole("button", { name: "Mark as paid" }).click();
    await dialog.getByRole("alert").getByText("the chain has no transaction").waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole("textbox", { name: "Transaction" }).fill(transaction);
    await dialog.getByRole("button", { name: "Mark as paid" }).click();
    await page.getByText("paid, queued").waitFor();
    await page.getByText("otto decided: seen on the explorer.").waitFor();
    expect(await stateOf(id)).toBe("QUEUED");
    await page.getByRole("link", { name: "View call" }).click();
    await page.getByText("Payment claimed").waitFor();
  });

  test.each([
    ["https://mainnet.base.org", 3],
    ["http://127.0.0.1:8545", 0],
  ])("with a node at %s, %i addresses of a payment link to a block explorer", async (rpc_url, links) => {
    const token = tokenTable("3200");
    const { network, asset } = token;
    const id = await claimPayment(payments.gateway.journal, { network, asset: asset.toLowerCase() });
    const configDir = join(tempDir(), "config");
    writeConfig(configDir, { postern: {}, x402: { accepted_tokens: [{ ...token, rpc_url }] } });
    const { address: at } = await start({ configDir });
    const page = await open({ at, hash: `#/payments/${id}`, as: "nobody" });
    const answered = page.waitForResponse("**/api/v1/configured-names");
    await signIn(page);
    await (await answered).finished();
    await page.getByText("settling", { exact: true }).waitFor();
    await expect.poll(() => page.getByRole("link", { name: "Address on basescan.org" }).count()).toBe(links);
    expect(await page.getByRole("button", { name: /^Copy 0x/ }).count()).toBeGreaterThanOrEqual(3);
  });

  test("a payment that an operator declares unpaid never runs", async () => {
    const id = await payments.claimForReview("the node lacks logs");
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByText("the node lacks logs").first().waitFor();
    await page.getByRole("button", { name: "Decide…" }).click();
    await page.getByRole("radio", { name: /No, and it will not be paid/ }).check();
    await page.getByRole("textbox", { name: "Reason" }).fill("the payer has said so");
    await page.getByRole("button", { name: "Mark as not paid" }).click();
    await page.getByText("not paid", { exact: true }).waitFor();
    expect(await stateOf(id)).toBe("VOID");
  });

  test("the body of an open payment is dropped with a reason, and cannot be dropped again", async () => {
    const id = await payments.claim();
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByRole("button", { name: "Give up…" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByRole("button", { name: "Give up payment" }).isDisabled()).toBe(true);
    await dialog.getByRole("textbox", { name: "Reason" }).fill("it fills Redis");
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Give up payment" }).click();
    await page.getByText(/^otto dropped its body: it fills Redis\./).waitFor();
    expect(await page.getByRole("button", { name: "Give up…" }).count()).toBe(0);
    expect(await payments.gateway.journal.find(id)).toMatchObject({ state: "SETTLING", call: undefined });
  });

  test("evidence that contradicts a paid payment is shown until an operator acknowledges it", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    const { address: at } = await service();
    const page = await open({ at });
    const attention = page.getByRole("region", { name: "Needs attention" });
    const navigation = page.getByRole("navigation", { name: "Pages" });
    await navigation.getByRole("link", { name: /^Payments 1\b/ }).waitFor();
    await attention
      .getByText(/^1 disputed payment: .* Check the facilitator, then acknowledge each\.$/)
      .waitFor();
    await attention.getByRole("link", { name: "1 disputed payment" }).click();
    await page.waitForFunction("location.hash === '#/payments?state=disputed'");
    await page.goto(`${page.url().split("#")[0]}#/payments`);
    await page.getByRole("link", { name: "Acknowledge" }).click();
    await page.getByText(/^The call was queued, but the chain does not show the payment\./).waitFor();
    await page.getByText(/, but the chain does not show the payment\.$/).waitFor();
    expect(await page.getByText(/was made|not confirmed .* yet|^paid/).count()).toBe(0);
    await page.getByRole("button", { name: "Acknowledge…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("a reorganisation");
    await page.getByRole("button", { name: "Acknowledge", exact: true }).click();
    await page.getByText("otto acknowledged it: a reorganisation.").waitFor();
    expect(await page.getByText("disputed", { exact: true }).count()).toBe(0);
    await page.goto(`${page.url().split("#")[0]}#/payments`);
    await page.getByLabel("State").selectOption("dispute acknowledged");
    await page.waitForFunction("location.hash === '#/payments?state=acknowledged'");
    const listed = page.getByRole("list", { name: "Payments, newest first" }).getByRole("listitem");
    await expect.poll(() => listed.count()).toBe(1);
    expect(await listed.getByText("dispute acknowledged", { exact: true }).count()).toBe(1);
  });

  test("disputed payments that are selected in the list are acknowledged together with one reason", async () => {
    const ids = [await payments.buy(), await payments.buy(), await payments.buy()];
    for (const id of ids) await payments.gateway.journal.markDisputed(id, "the chain shows no transfer");
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments?state=disputed" });
    const listed = page.getByRole("list", { name: "Payments, newest first" }).getByRole("listitem");
    await expect.poll(() => listed.count()).toBe(3);
    const acknowledge = page.getByRole("button", { name: /^Acknowledge.*…$/ });
    expect(await acknowledge.isDisabled()).toBe(true);
    await page.getByRole("checkbox", { name: "Select all listed payments" }).click();
    await page.getByRole("heading", { name: "3 selected" }).waitFor();
    await listed.nth(0).getByRole("checkbox").click();
    await shoot(page, "payments-acknowledge");
    expect(await violationsOf(page)).toEqual([]);
    await acknowledge.click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason" }).fill("the facilitator lied");
    await dialog.getByRole("button", { name: "Acknowledge", exact: true }).click();
    await dialog.getByText("2 payments acknowledged.").waitFor();
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await expect.poll(() => listed.count()).toBe(1);
    await page.getByRole("heading", { name: "Disputed payments" }).waitFor();
    const found = await Promise.all(ids.map((id) => payments.gateway.journal.find(id)));
    const reasons = found.map((each) => each?.acknowledged?.reason);
    expect(reasons).toEqual(["the facilitator lied", "the facilitator lied", undefined]);
  });

  test("an open payment is checked when an operator asks for it, and the page shows the outcome", async () => {
    const id = await payments.claim();
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByText("settling", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Check now" }).click();
    await page
      .getByRole("status")
      .getByText(/^A gateway checked/)
      .waitFor();
  });

  test("a disputed payment is found even among many newer payments, and disputed payments have a list of their own", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    await addDone(10_050, Date.now()); // more payments than one answer searches
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments" });
    const undecided = page.getByRole("region", { name: "Decisions needed" });
    await undecided.getByText("the chain shows no transfer any more").waitFor();
    expect(await undecided.getByRole("link", { name: "Acknowledge" }).count()).toBe(1);
    await payments.claim();
    await undecided.getByRole("link", { name: "1 disputed" }).click();
    await page.waitForFunction("location.hash === '#/payments?state=disputed'");
    const listed = page.getByRole("list", { name: "Payments, newest first" }).getByRole("listitem");
    await expect.poll(() => listed.count()).toBe(1);
    expect(await listed.getByRole("link").getAttribute("title")).toBe(id);
  });

  test("a disputed payment stays listed for a decision while newer payments push it out of the first page", async () => {
    const at = Date.now();
    await addDone(100, at - 3_600_000);
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    await addDone(9950, at + 3_600_000);
    const { address } = await service();
    const page = await open({ at: address, hash: "#/payments" });
    const step = page.getByRole("link", { name: "Acknowledge" });
    await step.waitFor();
    await addDone(100, at + 7_200_000);
    const answered = page.waitForResponse((response) => /disputed=true(?!.*cursor=)/.test(response.url()));
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await (await answered).finished();
    await page.evaluate("new Promise((then) => setTimeout(() => requestAnimationFrame(then)))");
    await step.waitFor();
  });

  test("revenue is sorted and drawn by amount, each token separately, for any size of amount", async () => {
    const { log, flush } = await reports.start({ kind: "x402" });
    const { network, asset } = devToken(payments.devnet);
    const settle = (jobIndex: number, amount: string, token: string = asset) =>
      log.info("payment.settled", { network, asset: token, serviceId: 1, jobIndex, amount });
    for (let i = 0; i < 9; i++) settle(7, "1000000");
    settle(8, "36000000");
    const [large, unknown] = ["9".repeat(40), `0x${"11".repeat(20)}`];
    settle(7, `${large}1`, unknown);
    settle(9, `${large}2`, unknown);
    await flush();
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments?view=revenue" });
    const shownOf = async (token: RegExp) => {
      const jobs = page.getByRole("region", { name: token }).getByRole("region", { name: /^By job/ });
      await jobs.getByRole("row").nth(2).waitFor();
      const rows = await jobs.getByRole("row").all();
      return Promise.all(
        rows.slice(1).map(async (row) => {
          const [job, payments, amount] = await row.getByRole("cell").allTextContents();
          const bar = await row.locator(".bar > div").getAttribute("style");
          return [job, payments, amount, bar];
        }),
      );
    };
    expect(await shownOf(/^USDC on/)).toEqual([
      ["1/8", "1", "36 USDC", "width: 100%;"],
      ["1/7", "9", "9 USDC", "width: 25%;"],
    ]);
    expect(await shownOf(/^0x1111/)).toEqual([
      ["1/9", "1", expect.stringContaining(`${large}2`), "width: 100%;"],
      ["1/7", "1", expect.stringContaining(`${large}1`), "width: 99.9%;"],
    ]);
    await shoot(page, "revenue-of-two-tokens", { whole: true });
  });

  test("revenue says how much of it is disputed, so that this money did not arrive", async () => {
    const { log, flush } = await reports.start({ kind: "x402" });
    const { network, asset } = devToken(payments.devnet);
    const id = await payments.buy();
    log.info("payment.settled", { network, asset, serviceId: 1, jobIndex: 7, amount: "3200000" });
    await flush();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments?view=revenue" });
    const jobs = page.getByRole("region", { name: /^By job/ });
    await jobs.getByRole("cell", { name: "3.2 USDC", exact: true }).first().waitFor();
    const headings = await jobs.getByRole("columnheader").allTextContents();
    const cells = await jobs.getByRole("row").nth(1).getByRole("cell").allTextContents();
    expect(cells[headings.indexOf("Amount")]).toBe("3.2 USDC");
    expect(cells[headings.indexOf("Disputed")]).toBe("3.2 USDC");
    await page.getByText("1 payment, not deducted", { exact: true }).waitFor();
    await shoot(page, "revenue-disputed", { whole: true });
  });

  test("if the browser's clock is ahead, recent events are shown as just now, and an authorization still expires later", async () => {
    const id = await payments.claim();
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.clock.setFixedTime(Date.now() + 7_200_000);
    await page.reload();
    const titleOf = (name: string) =>
      page
        .locator("div")
        .filter({ has: page.getByText(name, { exact: true }) })
        .last()
        .locator("time")
        .getAttribute("title");
    await page.getByText("Valid until").waitFor();
    expect(await titleOf("Received")).toMatch(JUST_NOW);
    expect(await titleOf("Valid until")).toMatch(/, in \d+ min$/);
    const sent = page.getByRole("listitem").filter({ hasText: "was asked once to settle it" });
    expect(await sent.locator("time").getAttribute("title")).toMatch(JUST_NOW);
    const valid = page.getByRole("listitem").filter({ hasText: "The authorization of" });
    expect(await valid.locator("time").getAttribute("title")).toMatch(/, in \d+ min$/);
  });

  test("if some payments cannot be read the page says so, and neither that it is still searching nor that there are none", async () => {
    const { address: at } = await service();
    const page = await open({ at, hash: "#/failed" });
    const isDisputed = (url: URL) => url.searchParams.get("disputed") === "true";
    await page.route(isDisputed, (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.getByRole("navigation").getByRole("link", { name: "Payments" }).click();
    const refusal = page.getByRole("alert").filter({ hasText: "Redis is away" });
    await refusal.waitFor();
    const undecided = page.getByRole("region", { name: "Decisions needed" });
    await undecided.getByText("Loading").waitFor({ state: "detached" });
    expect(await undecided.getByRole("button", { name: "Search older payments" }).count()).toBe(0);
    const none = undecided.getByText("No payment is in review");
    expect(await none.count()).toBe(0);
    await page.unroute(isDisputed);
    await none.waitFor();
    expect(await refusal.count()).toBe(0);
  });

  test("an exported refund needs a decision if its job was done, and none if it was not", async () => {
    configureRefunds(payments);
    const [late = "", other = ""] = await refundable(payments, 2);
    const { address: at, post } = await service();
    await post("/api/v1/payments/refunds/exports", { call_ids: [late, other], reason: "x" });
    // A producer writes this field if its 2xx comes too late.
    await payments.redis.client.hset(keys.record(late), "late", Date.now());
    const page = await open({ at, hash: "#/payments" });
    const undecided = page.getByRole("region", { name: "Decisions needed" }).getByRole("listitem");
    await undecided.getByText("The runner did the job after the refund was exported.").waitFor();
    expect(await undecided.count()).toBe(1);
    await undecided.getByRole("link", { name: "Withdraw refund" }).click();
    await page.waitForFunction(`location.hash === '#/payments/${late}'`);
    await page.getByText("If the refund is not paid yet, withdraw it.").waitFor();
  });
});
