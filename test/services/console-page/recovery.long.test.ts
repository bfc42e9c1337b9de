import type { Page } from "playwright-core";
import { beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createAudit } from "../../../shared/redis/audit/audit.ts";
import { shoot } from "../../fixtures/chromium.ts";
import type { TestOperator } from "../../fixtures/console.ts";
import { runFor, useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";

/** Every page and view, and a text that it shows once Redis can be read. */
const PAGES: readonly [hash: string, shown: string | RegExp][] = [
  ["#/overview", "1 failed call to replay or discard"],
  ["#/calls", /currency EURO/],
  ["#/calls/ID", /^Runner refused the call: .*currency EURO/],
  ["#/failed", /currency EURO/],
  ["#/payments", "No matching payments"],
  ["#/payments?view=revenue", "No payments in the last 30 days"],
  ["#/payments?view=refunds", "No refunds"],
  ["#/payments?view=audit", "Not matched from this page yet"],
  [`#/payments/c_${"0".repeat(32)}`, "Payment not found"],
  ["#/endpoints", "No endpoints configured"],
  ["#/jobs", "7/1"],
  ["#/refused", "No refused requests"],
  ["#/payments?view=prices", "No tokens accepted"],
  ["#/audit", "its database is being moved"],
];

const TOLD = /^(?:Data|Calls|Payments|Audit log) unavailable|^Search failed|Not updated since/;
/** Timeout of a retry: a page asks again after about ten seconds, or after ten times the duration of a refusal. */
const ASKED_AGAIN = { timeout: 90_000 };

describe("a page whose Redis was unavailable", needs("chromium"), () => {
  const redis = useRedis();
  const proxy = useRedisProxy(redis);
  const calls = useFailedCalls({ redis });
  const { open, start } = useOperatorPage({ redis });
  let id = "";
  let service: TestOperator;

  beforeEach(async () => {
    [id = ""] = await calls.fail([{}], "runner.refused", "422 currency EURO is not one of EUR, USD");
    const audit = createAudit(redis.partition, silentLogger);
    const [action, reason] = ["pause", "its database is being moved"] as const;
    await audit({ at: Date.now(), action, job: "7/1", by: "otto", selection: "by name", reason });
    service = await start({ redisUrl: proxy.url });
  });

  const begin = (hash: string) => open({ at: service.address, hash: hash.replace("ID", id) });
  const shownOn = (page: Page, shown: string | RegExp) => page.getByText(shown).first();

  async function takeRedisAway(): Promise<void> {
    proxy.onCommand = () => ({ kind: "lose-command" });
    await expect.poll(async () => (await service.get("/api/v1/jobs")).status).toBe(503);
  }

  test.each(PAGES)("recovers by itself: %s", async (hash, shown) => {
    const page = await begin("#/nowhere");
    await takeRedisAway();
    await page.evaluate(`location.hash = ${JSON.stringify(hash.replace("ID", id))}`);
    const notice = page.getByRole("alert").filter({ hasText: TOLD }).first();
    await notice.waitFor();
    await page.locator(".live", { hasText: /^Live$/ }).waitFor({ state: "detached" });
    expect(await page.getByText("None in the payments searched so far").count()).toBe(0);
    proxy.onCommand = () => undefined;
    await shownOn(page, shown).waitFor(ASKED_AGAIN);
    await notice.waitFor({ state: "detached", ...ASKED_AGAIN });
  });

  test.each(["#/overview", "#/calls", "#/calls/ID", "#/failed", "#/jobs"])(
    "keeps its data, says how old it is, and continues by itself: %s",
    async (hash) => {
      const shown = PAGES.find(([each]) => each === hash)?.[1] ?? "";
      const page = await begin(hash);
      await shownOn(page, shown).waitFor();
      await takeRedisAway();
      if (hash === "#/calls") await page.getByRole("button", { name: "Refresh" }).click();
      else await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
      const note = page.getByText(/^Not updated since \d\d:\d\d:\d\d$/).first();
      await note.waitFor(ASKED_AGAIN);
      await page
        .getByText(/\. The console tries again automatically\.$/)
        .first()
        .waitFor();
      expect(await shownOn(page, shown).isVisible()).toBe(true);
      await shoot(page, `not-updated-${hash.replaceAll(/\W+/g, "-")}`);
      expect(await violationsOf(page)).toEqual([]);
      proxy.onCommand = () => undefined;
      await note.waitFor({ state: "detached", ...ASKED_AGAIN });
      await shownOn(page, shown).waitFor();
    },
  );

  test("appears once the session can be read, if it was opened meanwhile", async () => {
    const page = await begin("#/calls");
    await shownOn(page, /currency EURO/).waitFor();
    await takeRedisAway();
    await page.reload();
    await page.getByText("The console cannot be loaded").waitFor();
    proxy.onCommand = () => undefined;
    await shownOn(page, /currency EURO/).waitFor(ASKED_AGAIN);
  });

  test("shows a body that was requested meanwhile", async () => {
    const page = await begin("#/calls/ID");
    await page.getByRole("button", { name: /^Show body/ }).waitFor();
    await takeRedisAway();
    await page.getByRole("button", { name: /^Show body/ }).click();
    await page.getByText("Body unavailable").waitFor();
    proxy.onCommand = () => undefined;
    await page.locator(".body-view").waitFor(ASKED_AGAIN);
    await page.getByText("Body unavailable").waitFor({ state: "detached" });
  });

  test("counts the calls of an open dialog, and keeps the reason that was typed meanwhile", async () => {
    const page = await begin("#/failed");
    await page.getByRole("checkbox", { name: /^Select c_/ }).waitFor();
    await takeRedisAway();
    await page.getByRole("button", { name: "Discard all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Calls could not be counted").waitFor();
    await dialog.getByLabel("Reason").fill("sent twice");
    proxy.onCommand = () => undefined;
    await dialog.getByRole("button", { name: "Discard 1 call" }).waitFor(ASKED_AGAIN);
    expect(await dialog.getByLabel("Reason").inputValue()).toBe("sent twice");
    await takeRedisAway();
    await dialog.getByRole("button", { name: "Discard 1 call" }).click();
    await dialog.getByText("The outcome is unknown").waitFor();
    expect(await dialog.getByLabel("Reason").inputValue()).toBe("sent twice");
    proxy.onCommand = () => undefined;
    await expect.poll(async () => (await service.get("/api/v1/jobs")).status).toBe(200);
    await dialog.getByRole("button", { name: "Discard 1 call" }).click();
    await dialog.getByText("1 call discarded").waitFor();
  });
});

const setHidden = (page: Page, isHidden: boolean): Promise<unknown> =>
  page.evaluate(`Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"))`);

describe("a page whose requests fail", needs("chromium"), () => {
  const redis = useRedis();
  const { open } = useOperatorPage({ redis });
  const FOUND = "**/api/v1/calls?*";

  /** Opens the page of calls with a fake clock, and counts its requests from then on. */
  async function openFailing(status = 503, headers = {}): Promise<{ page: Page; asked: () => number }> {
    const page = await open({ hash: "#/nowhere" });
    await page.clock.install();
    let asked = 0;
    await page.route(FOUND, (route) => {
      asked += 1;
      return route.fulfill({ status, headers, json: { code: "x", detail: "Redis is away" } });
    });
    await page.evaluate(`location.hash = "#/calls"`);
    await page.getByText("Redis is away").waitFor();
    return { page, asked: () => asked };
  }

  test("asks again soon, then less often, and at least every ten seconds", async () => {
    const { page, asked } = await openFailing();
    expect(asked()).toBe(1);
    await runFor(page, 2);
    expect(asked()).toBeGreaterThan(1);
    await runFor(page, 120);
    expect(asked()).toBeGreaterThanOrEqual(13);
    expect(asked()).toBeLessThanOrEqual(45);
    const before = asked();
    await page.getByRole("button", { name: "Try again" }).click();
    await expect.poll(asked).toBe(before + 1);
  });

  test("asks nothing while it is hidden, and at once when it becomes visible", async () => {
    const { page, asked } = await openFailing();
    await setHidden(page, true);
    const before = asked();
    await runFor(page, 60);
    expect(asked()).toBe(before);
    await page.unroute(FOUND);
    await setHidden(page, false);
    await page.getByText("No calls yet").waitFor();
  });

  test("does not repeat a request that would be refused again", async () => {
    const { page, asked } = await openFailing(403);
    await runFor(page, 60);
    expect(asked()).toBe(1);
  });

  test("waits as long as Retry-After says, even if it becomes visible again", async () => {
    const { page, asked } = await openFailing(429, { "retry-after": "180" });
    await runFor(page, 90);
    await setHidden(page, true);
    await setHidden(page, false);
    await runFor(page, 2);
    expect(asked()).toBe(1);
    await runFor(page, 100);
    expect(asked()).toBe(2);
  });

  test("says how old its data is while an answer is missing, gives up a request after half a minute, and then pauses", async () => {
    const page = await open({ hash: "#/nowhere" });
    await page.clock.install();
    await page.evaluate(`location.hash = "#/refused"`);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.route("**/api/v1/rejected?*", () => {});
    await runFor(page, 20);
    await page.getByText(/^As of \d+ s ago$/).waitFor();
    expect(await page.getByText("Live", { exact: true }).count()).toBe(0);
    expect(await page.getByText(/^Not updated since/).count()).toBe(0);
    await runFor(page, 20);
    await page.getByText(/^Not updated since/).waitFor();
    await page.unroute("**/api/v1/rejected?*");
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().includes("/api/v1/rejected?")) asked += 1;
    });
    await runFor(page, 200);
    await setHidden(page, true);
    await setHidden(page, false);
    await runFor(page, 2);
    expect(asked).toBe(0);
    await runFor(page, 120);
    expect(asked).toBeGreaterThan(0);
    await page.getByText("Live", { exact: true }).waitFor();
  });
});

describe("a page that loses answers", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  /**
   * Drops each answer to these requests, after the service has handled them. Returns a function with the number of
   * requests.
   */
  async function loseAnswers(page: Page, path: string): Promise<() => number> {
    let asked = 0;
    await page.route(path, async (route) => {
      asked += 1;
      await route.fetch();
      await route.abort();
    });
    return () => asked;
  }

  test("does not read an interrupted body again until the user asks for it", async () => {
    const [id] = await calls.fail([{}]);
    const page = await open({ hash: `#/calls/${id}` });
    const show = page.getByRole("button", { name: /^Show body/ });
    await show.waitFor();
    await page.clock.install();
    const asked = await loseAnswers(page, "**/body");
    await show.click();
    await page.getByText("Body unavailable").waitFor();
    await runFor(page, 60);
    expect(asked()).toBe(1);
    await page.unroute("**/body");
    await show.click();
    await page.locator(".body-view").waitFor();
  });

  test("does not repeat the count of a discard until the user asks for it", async () => {
    await calls.fail([{}]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Discard all…" }).waitFor();
    await page.clock.install();
    const asked = await loseAnswers(page, "**/failed/discards");
    await page.getByRole("button", { name: "Discard all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Calls could not be counted").waitFor();
    await runFor(page, 60);
    expect(asked()).toBe(1);
    await page.unroute("**/failed/discards");
    await dialog.getByRole("button", { name: "Try again" }).click();
    await runFor(page, 2);
    await dialog.getByRole("button", { name: "Discard 1 call" }).waitFor();
  });

  test("polls a long replay less and less often, and not at all while the page is hidden", async () => {
    await calls.fail([{}]);
    const page = await open({ hash: "#/failed" });
    await page.clock.install();
    let asked = 0;
    await page.route("**/bulk/*", async (route) => {
      asked += 1;
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), state: "running" } });
    });
    await page.getByRole("button", { name: "Replay all…" }).click();
    await expect.poll(() => asked).toBeGreaterThan(5);
    // The steps are short, because a request that seems to take long is repeated later.
    await runFor(page, 120, 100);
    expect(asked).toBeLessThan(70);
    await setHidden(page, true);
    await runFor(page, 6);
    asked = 0;
    await runFor(page, 30);
    expect(asked).toBe(0);
    await setHidden(page, false);
    await expect.poll(() => asked).toBe(1);
  });
});
