import { describe, expect, test } from "vitest";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";
import { configureRefunds, refundable } from "../operator/refundable.ts";
import { paidInReview } from "../operator/routes/resolve-payment/decide.ts";

describe("the page of payments", needs("chromium"), () => {
  const payments = usePayments();
  const { open, start } = useOperatorPage({ redis: payments.redis });
  const service = () => start({ configDir: payments.postern.configDir });
  const stateOf = async (id: string) => (await payments.gateway.journal.find(id))?.state;

  /** Payments whose jobs are done, claimed from then on. */
  async function addDone(count: number, at: number): Promise<void> {
    const { client } = payments.redis;
    const ids = Array.from({ length: count }, (_, i) => `c_${at}${String(i).padStart(19, "0")}`);
    await client.zadd(keys.payments, ...ids.flatMap((id, i) => [at + i, id]));
    await Promise.all(ids.map((id) => client.hset(keys.record(id), "st", "INJECTED")));
  }

  test("a payment in review stands first, says why and what can be done, and its call runs once it is decided by its transaction", async () => {
    const { id, transaction } = await paidInReview(payments);
    const { address: at } = await service();
    const page = await open({ at });
    const attention = page.getByRole("region", { name: "What needs somebody" });
    await attention.getByRole("link", { name: "1 payment in review waits for a decision" }).click();
    const undecided = page.getByRole("region", { name: "To be decided" });
    await undecided.getByText("3.2 USDC").waitFor();
    await shoot(page, "payments-in-review");
    await undecided.getByRole("link", { name: "Look and decide" }).click();
    await page.getByText(/^It was sent to .* to be settled once/).waitFor();
    await page.getByRole("button", { name: "Decide…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { name: /Yes, it is paid/ }).check();
    await dialog.getByLabel("Reason").fill("seen on the explorer");
    expect(await dialog.getByRole("button", { name: "It is paid" }).isDisabled()).toBe(true);
    await dialog.getByRole("textbox", { name: "Transaction" }).fill(`0x${"0".repeat(64)}`);
    await dialog.getByRole("button", { name: "It is paid" }).click();
    await dialog.getByRole("alert").getByText("the chain has no transaction").waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole("textbox", { name: "Transaction" }).fill(transaction);
    await dialog.getByRole("button", { name: "It is paid" }).click();
    await page.getByText("paid, queued").waitFor();
    await page.getByText("otto decided: seen on the explorer.").waitFor();
    expect(await stateOf(id)).toBe("QUEUED");
    await page.getByRole("link", { name: "The life of its call" }).click();
    await page.getByText("Payment claimed").waitFor();
  });

  test("a payment that is decided not to be paid never runs", async () => {
    const id = await payments.claimForReview("the node lacks logs");
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByText("the node lacks logs").first().waitFor();
    await page.getByRole("button", { name: "Decide…" }).click();
    await page.getByRole("radio", { name: /No, and it is not going to be/ }).check();
    await page.getByRole("textbox", { name: "Reason" }).fill("the payer has said so");
    await page.getByRole("button", { name: "It is not paid" }).click();
    await page.getByText("not paid", { exact: true }).waitFor();
    expect(await stateOf(id)).toBe("VOID");
  });

  test("the body of an open payment is dropped with a reason, and then can be dropped no more", async () => {
    const id = await payments.claim();
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByRole("button", { name: "Drop its body…" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByRole("button", { name: "Drop it" }).isDisabled()).toBe(true);
    await dialog.getByRole("textbox", { name: "Reason" }).fill("it fills Redis");
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Drop it" }).click();
    await page.getByText(/^otto dropped its body: it fills Redis\./).waitFor();
    expect(await page.getByRole("button", { name: "Drop its body…" }).count()).toBe(0);
    expect(await payments.gateway.journal.find(id)).toMatchObject({ state: "SETTLING", call: undefined });
  });

  test("what contradicts a paid one is shown until somebody has seen it", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments" });
    await page.getByRole("link", { name: "Look and acknowledge" }).click();
    await page.getByRole("button", { name: "Acknowledge…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("a reorganisation");
    await page.getByRole("button", { name: "Acknowledge", exact: true }).click();
    await page.getByText("otto has seen it: a reorganisation.").waitFor();
    expect(await page.getByText("disputed", { exact: true }).count()).toBe(0);
  });

  test("an open payment is looked at when somebody asks for it, and the page says what came of it", async () => {
    const id = await payments.claim();
    const { address: at } = await service();
    const page = await open({ at, hash: `#/payments/${id}` });
    await page.getByText("settling", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Look now" }).click();
    await page
      .getByRole("status")
      .getByText(/^A gateway has looked/)
      .waitFor();
  });

  test("a disputed payment is found however many newer ones there are, and such payments have a list of their own", async () => {
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    await addDone(10_050, Date.now()); // more than an answer looks at
    const { address: at } = await service();
    const page = await open({ at, hash: "#/payments" });
    const undecided = page.getByRole("region", { name: "To be decided" });
    await undecided.getByText("the chain shows no transfer any more").waitFor();
    expect(await undecided.getByRole("link", { name: "Look and acknowledge" }).count()).toBe(1);
    await payments.claim();
    await undecided.getByRole("link", { name: "1 disputed" }).click();
    await page.waitForFunction("location.hash === '#/payments?state=disputed'");
    const listed = page.getByRole("list", { name: "Payments, the newest first" }).getByRole("listitem");
    await expect.poll(() => listed.count()).toBe(1);
    expect(await listed.getByRole("link").getAttribute("title")).toBe(id);
  });

  test("a disputed payment stays to be decided while newer ones push it out of what is looked at first", async () => {
    const at = Date.now();
    await addDone(100, at - 3_600_000);
    const id = await payments.buy();
    await payments.gateway.journal.markDisputed(id, "the chain shows no transfer any more");
    await addDone(9950, at + 3_600_000);
    const { address } = await service();
    const page = await open({ at: address, hash: "#/payments" });
    const step = page.getByRole("link", { name: "Look and acknowledge" });
    await step.waitFor();
    await addDone(100, at + 7_200_000);
    const answered = page.waitForResponse((response) => /disputed=true(?!.*cursor=)/.test(response.url()));
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await (await answered).finished();
    await page.evaluate("new Promise((then) => setTimeout(() => requestAnimationFrame(then)))");
    await step.waitFor();
  });

  test("if some payments cannot be looked at the page says so, and neither that it looks nor that there are none", async () => {
    const { address: at } = await service();
    const page = await open({ at, hash: "#/failed" });
    const isDisputed = (url: URL) => url.searchParams.get("disputed") === "true";
    await page.route(isDisputed, (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.getByRole("navigation").getByRole("link", { name: "Payments" }).click();
    const refusal = page.getByRole("alert").filter({ hasText: "Redis is away" });
    await refusal.waitFor();
    const undecided = page.getByRole("region", { name: "To be decided" });
    await undecided.getByText("Looking").waitFor({ state: "detached" });
    expect(await undecided.getByRole("button", { name: "Look further" }).count()).toBe(0);
    const none = undecided.getByText("No payment is in review");
    expect(await none.count()).toBe(0);
    await page.unroute(isDisputed);
    await refusal.getByRole("button", { name: "Try again" }).click();
    await none.waitFor();
    expect(await refusal.count()).toBe(0);
  });

  test("a refund on its way for a job that was done waits for a decision too; one for a job that was not does not", async () => {
    configureRefunds(payments);
    const [late = "", other = ""] = await refundable(payments, 2);
    const { address: at, post } = await service();
    await post("/api/v1/payments/refunds/exports", { call_ids: [late, other], reason: "x" });
    // What the producer writes whose 2xx comes too late.
    await payments.redis.client.hset(keys.record(late), "late", Date.now());
    const page = await open({ at, hash: "#/payments" });
    const undecided = page.getByRole("region", { name: "To be decided" }).getByRole("listitem");
    await undecided.getByText("The runner has done its job although its refund was exported.").waitFor();
    expect(await undecided.count()).toBe(1);
    await undecided.getByRole("link", { name: "Look and withdraw" }).click();
    await page.waitForFunction(`location.hash === '#/payments/${late}'`);
    await page.getByText("Take it off the export").waitFor();
  });
});
