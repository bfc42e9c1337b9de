import type { Page } from "playwright-core";
import { beforeEach, describe, expect, test } from "vitest";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { violationsOf } from "../../support/axe.ts";
import { findChromium } from "../../support/chromium.ts";
import { configureRefunds, refundable } from "../operator/refundable.ts";

const chromium = findChromium();

describe.skipIf(chromium === undefined)("the page of audits and refunds", () => {
  const payments = usePayments();
  const { open, start } = useOperatorPage(chromium, { redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  async function show(view: "audit" | "refunds"): Promise<Page> {
    const { address: at } = await start({ configDir: payments.postern.configDir });
    return open({ at, hash: `#/payments?view=${view}` });
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
    const page = await show("audit");
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
    const page = await show("refunds");
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
});
