import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { findChromium } from "../../support/chromium.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";

const chromium = findChromium();

/** Rows of the list that are drawn. */
const rows = (page: Page) =>
  page.getByRole("list", { name: "Failed calls, the newest first" }).getByRole("listitem");

describe.skipIf(chromium === undefined)("the page of failed calls", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage(chromium, { redis });

  test("if no call has failed it says so, and that nothing is to be done", async () => {
    const page = await open({ hash: "#/failed" });
    await page.getByText("No call has failed").waitFor();
    expect(await page.getByRole("button", { name: /Replay|Discard/ }).count()).toBe(0);
  });

  test("calls are grouped by job and reason, and choosing a group lists its calls alone", async () => {
    await calls.fail([{ jobId: 1 }, { jobId: 1 }, { jobId: 2 }]);
    const [other] = await calls.fail([{ jobId: 1 }], "call.corrupt");
    const page = await open({ hash: "#/failed" });
    const groups = page.getByRole("region", { name: "By job and reason" }).getByRole("row");
    await groups
      .filter({ hasText: "runner.refused" })
      .filter({ hasText: "7/1" })
      .getByText("2", { exact: true })
      .waitFor();
    await groups.filter({ hasText: "call.corrupt" }).getByRole("link").click();
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    await rows(page)
      .getByRole("link")
      .and(page.locator(`[title="${other}"]`))
      .waitFor();
    expect(await rows(page).count()).toBe(1);
    expect(new URL(page.url()).hash).toContain("code=call.corrupt");
  });

  test("with the keys alone one reaches the page, walks the rows, selects and opens", async () => {
    await calls.fail([{}, {}, {}]);
    const page = await open();
    await page.getByRole("heading", { name: "Flow" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("x");
    await rows(page).first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    expect(await rows(page).nth(1).getByRole("checkbox").isChecked()).toBe(true);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "3 calls" }).waitFor();
    await rows(page).nth(1).getByRole("link").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Call", exact: true }).waitFor();
  });

  test("among 100,000 failed calls one scrolls without a stall, and the document holds a screenful of them", async () => {
    const [id] = await calls.fail([{}]);
    if (id === undefined) throw new Error("no call");
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: 99_999, everyMs: 7 });
    const page = await open({ hash: "#/failed" });
    await page.getByRole("heading", { name: "100,000 calls" }).waitFor();
    await page.evaluate(`
      window.longest = 0;
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
      }).observe({ type: "longtask" });
      window.shifted = 0;
      new PerformanceObserver((list) => {
        for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shifted += value;
      }).observe({ type: "layout-shift" });
    `);
    for (let reached = 0; reached < 5000; ) {
      const answered = page.waitForResponse((response) => response.url().includes("cursor="));
      await page.mouse.wheel(0, 200_000);
      await answered;
      const index = await rows(page).last().getAttribute("data-index");
      expect(Number(index)).toBeGreaterThanOrEqual(reached);
      reached = Number(index);
    }
    expect(await rows(page).count()).toBeLessThan(100);
    expect(await page.evaluate("window.longest")).toBeLessThan(1000);
    expect(await page.evaluate("window.shifted")).toBe(0);
  });
});
