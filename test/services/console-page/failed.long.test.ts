import type { Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { SIZES, shoot, watchLayout } from "../../fixtures/chromium.ts";
import { JUST_NOW, openByKeys, useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";
import { needs } from "../../support/needs.ts";
import { failPaid, OTHER_USDC, USDC, WIDE } from "../console/paid-failures.ts";

/** The drawn rows of the list. */
const rows = (page: Page) =>
  page.getByRole("list", { name: "Failed calls, newest first" }).getByRole("listitem");

describe("the page of failed calls", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  test("a call that was sent once shows one attempt, in a wide and a narrow window", async () => {
    await calls.fail([{}]);
    const page = await open({ hash: "#/failed" });
    await page.getByText("Attempts", { exact: true }).waitFor();
    const phone = await open({ hash: "#/failed", viewport: SIZES.phone });
    await rows(phone).first().getByText("1 attempt", { exact: true }).waitFor();
    const id = await rows(phone).first().getByRole("link").boundingBox();
    expect(id?.height).toBeLessThan(24);
  });

  test("text in a filter field stays while the page is rendered again, and filters once it is entered", async () => {
    await calls.fail([{ path: "/hooks/a" }]);
    const page = await open({ hash: "#/failed" });
    await rows(page).first().waitFor();
    const field = page.getByRole("searchbox", { name: "Endpoint" });
    await field.pressSequentially("/hooks/");
    await calls.fail([{ path: "/hooks/b" }], "call.corrupt");
    await page.getByRole("button", { name: "Show 1 new" }).waitFor();
    expect(await field.inputValue()).toBe("/hooks/");
    await field.pressSequentially("b");
    await field.press("Enter");
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    expect(new URL(page.url()).hash).toContain("endpoint=%2Fhooks%2Fb");
  });

  test("if no call has failed the page says so, and that nothing needs to be done", async () => {
    const page = await open({ hash: "#/failed" });
    await page.getByText("No failed calls").waitFor();
    expect(await page.getByRole("button", { name: /Replay|Discard/ }).count()).toBe(0);
  });

  test.each([-2, 2])(
    "if the browser's clock is %d hours wrong, the newest failure is still shown as just now, and within the last hour",
    async (hours) => {
      await calls.fail([{}]);
      const page = await open({ hash: "#/failed" });
      await page.clock.install({ time: Date.now() + hours * 3_600_000 });
      await page.reload();
      const group = page.getByRole("region", { name: "By job and reason" }).getByRole("row").nth(1);
      await group.locator("[data-label=Newest]").getByText(JUST_NOW).waitFor();
      expect(await rows(page).first().locator("time").getAttribute("title")).toMatch(JUST_NOW);
      const requested = page.waitForRequest((request) => request.url().includes("since="));
      await page.getByRole("combobox", { name: "Failed" }).selectOption("1h");
      const since = new URL((await requested).url()).searchParams.get("since") ?? "";
      expect(Math.abs(Date.now() - 3_600_000 - Date.parse(since))).toBeLessThan(60_000);
      await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
      await expect.poll(() => rows(page).count()).toBe(1);
    },
  );

  test("calls are grouped by job and reason, and a click on a group lists only its calls", async () => {
    const [first = "", second = ""] = await calls.fail([{ jobId: 1 }, { jobId: 1 }, { jobId: 2 }]);
    const [other] = await calls.fail([{ jobId: 1 }], "call.corrupt");
    const failedAt = await Promise.all([first, second].map(async (id) => (await calls.find(id)).failedAt));
    const page = await open({ hash: "#/failed" });
    const groups = page.getByRole("region", { name: "By job and reason" }).getByRole("row");
    const ofTwo = groups.filter({ hasText: "runner.refused" }).filter({ hasText: "7/1" });
    await ofTwo.getByText("2", { exact: true }).waitFor();
    expect(await ofTwo.locator("[data-label=Oldest] time").getAttribute("datetime")).toBe(
      new Date(Math.min(...failedAt)).toISOString(),
    );
    await groups.filter({ hasText: "call.corrupt" }).getByRole("link").first().click();
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    await rows(page)
      .getByRole("link")
      .and(page.locator(`[title="${other}"]`))
      .waitFor();
    expect(await rows(page).count()).toBe(1);
    expect(new URL(page.url()).hash).toContain("code=call.corrupt");
  });

  test("the keyboard alone opens the page, moves through the rows, selects and opens them", async () => {
    await calls.fail([{}, {}, {}]);
    const page = await open();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await openByKeys(page, "failed");
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

  test("`g` and a letter open a page, even if the page is rendered again between the two keys", async () => {
    const page = await open();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.evaluate(`(async () => {
      const press = (key) => window.dispatchEvent(new KeyboardEvent("keydown", { key }));
      press("g");
      location.hash = "#/overview?span=day";
      for (let i = 0; i < 3; i++)
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      press("x");
    })()`);
    await page.getByRole("heading", { name: "Failed calls" }).waitFor();
  });

  test("before a replay the dialog shows its calls and asks for a reason, and the audit log then has that reason", async () => {
    const [first] = await calls.fail([{ jobId: 1 }, { jobId: 2 }]);
    await calls.fail([{ jobId: 1 }], "call.corrupt");
    const page = await open({ hash: "#/failed?job=7%2F1" });
    await page.getByRole("button", { name: "Replay all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("row").filter({ hasText: "runner.refused" }).waitFor();
    await dialog.getByRole("row").filter({ hasText: "call.corrupt" }).waitFor();
    const go = dialog.getByRole("button", { name: "Replay 2 calls" });
    expect(await go.isDisabled()).toBe(true);
    await dialog.getByLabel("Reason").fill("the runner is mended");
    await shoot(page, "replay-asked");
    await go.click();
    await dialog.getByText("2 calls replayed").waitFor();
    await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
    await page.getByText("No matching calls").waitFor();
    const audited = await calls.audited();
    expect(audited.map(({ action }) => action)).toEqual([...["sign_in", "begin_replay", "replay", "replay"]]);
    expect(audited).toContainEqual(
      expect.objectContaining({
        ...{ action: "replay", call_id: first, by: "otto" },
        reason: "the runner is mended",
      }),
    );
  });

  test("only the selected calls are discarded", async () => {
    await calls.fail([{}, {}, {}]);
    const page = await open({ hash: "#/failed" });
    const kept = await rows(page).nth(1).getByRole("link").getAttribute("title");
    for (const i of [0, 2]) await rows(page).nth(i).getByRole("checkbox").click();
    await page.getByRole("button", { name: "Discard 2…" }).click();
    await page.getByPlaceholder("Test orders, agreed with the shop").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await page.getByRole("button", { name: "Discard 2 calls" }).click();
    await page.getByRole("dialog").getByText("2 calls discarded").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    expect(await calls.find(String(kept))).toBeDefined();
  });

  test("a discard with paid calls shows their number and sum before it, and the refunds that are due after it", async () => {
    await calls.fail([{}, {}, {}]);
    await failPaid(calls, [
      { ...USDC, amount: "40" },
      { ...USDC, amount: "8" },
      { ...OTHER_USDC, amount: "5" },
      { ...WIDE, amount: "6", isProven: false },
    ]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Discard all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("4 of 7 calls are paid").waitFor();
    const split = dialog.getByRole("listitem");
    await expect.poll(() => split.count()).toBe(3);
    const [due = "", doubtful, others] = await split.allTextContents();
    expect(due).toMatch(/^3 refunds due: /);
    expect(due).toContain("48 smallest units of USDC on eip155:8453");
    expect(due).toContain("5 smallest units of USDC on eip155:1");
    expect(doubtful).toBe("1 payment not yet confirmed on chain: 6 smallest units of WIDE");
    expect(others).toBe("3 calls without a refund");
    await shoot(page, "discard-paid");
    expect(await violationsOf(page)).toEqual([]);
    await dialog.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await dialog.getByRole("button", { name: "Discard 7 calls" }).click();
    await dialog.getByText("7 calls discarded").waitFor();
    await dialog
      .getByText(
        /^Refunds became due: .*for 3 calls; 6 smallest units of WIDE, not yet confirmed on chain, for 1 call/,
      )
      .waitFor();
    await shoot(page, "discard-made-due");
    await dialog.getByRole("link", { name: "Refunds became due" }).click();
    await page
      .getByRole("region", { name: "Refunds", exact: true })
      .getByText("paid, discarded")
      .first()
      .waitFor();
  });

  test("counts of another filter, and calls that were not counted, are never shown as those of the current filter", async () => {
    const [id = ""] = await calls.fail([{ jobId: 1 }, { jobId: 2 }]);
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: 300, everyMs: -7 });
    const page = await open({ hash: "#/failed" });
    await page.getByRole("heading", { name: "302 calls" }).waitFor();
    const counts: Route[] = [];
    await page.route("**/api/v1/failed/count?*", (route) => void counts.push(route));
    await page.getByRole("combobox", { name: "Job" }).selectOption("7/1");
    await expect.poll(() => counts.length).toBe(1);
    const list = page.getByRole("region", { name: "Failed calls" }).getByRole("heading");
    await expect.poll(() => list.textContent()).toBe("Calls");
    await counts[0]?.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } });
    await expect.poll(() => counts.length).toBe(2); // it is requested again
    expect(await list.textContent()).toBe("Calls");
    await page.getByRole("button", { name: "Discard all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Discard 301 calls" }).waitFor();
    expect(await dialog.getByRole("heading").textContent()).toBe("Discard failed calls?");
  });

  test("a console that can no longer read the groups does not say that nothing needs to be done", async () => {
    const page = await open({ hash: "#/failed" });
    await page.getByText("See Overview for current calls").waitFor();
    await page.route("**/api/v1/failed/groups*", (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await page.getByText("Failed calls cannot be read now").waitFor();
    expect(await page.getByText("See Overview for current calls").count()).toBe(0);
  });

  test("a discard of unpaid calls does not mention money", async () => {
    await calls.fail([{}]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Discard all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Discard 1 call" }).waitFor();
    expect(await dialog.getByText(/paid|refund/i).count()).toBe(0);
  });

  test("calls that fail meanwhile are counted and offered, and the list changes only when the user asks for it", async () => {
    const [first] = await calls.fail([{}]);
    const page = await open({ hash: "#/failed" });
    await rows(page).first().getByRole("checkbox").click();
    await page.getByText("1 selected").waitFor();
    await calls.fail([{}, {}], "call.corrupt");
    const offer = page.getByRole("button", { name: "Show 2 new" });
    await offer.waitFor();
    await page.getByRole("region", { name: "By job and reason" }).getByText("call.corrupt").waitFor();
    expect(await rows(page).count()).toBe(1);
    expect(await rows(page).first().getByRole("checkbox").isChecked()).toBe(true);
    await offer.click();
    await rows(page).nth(2).waitFor();
    expect(await offer.count()).toBe(0);
    expect(await rows(page).last().getByRole("link").getAttribute("title")).toBe(first);
  });

  test("a long replay shows its progress, is cancelled half way, and does the rest when it is resumed", async () => {
    const CALLS = 9000; // so many that a busy page can cancel it before its end
    const [id] = await calls.fail([{}]);
    if (id === undefined) throw new Error("no call");
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: CALLS - 1, everyMs: -7 });
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Replay all…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the runner is mended");
    await page.getByRole("button", { name: "Replay 9,000 calls" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/^[1-9][\d,]* of 9,000 calls replayed$/).waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.getByText("cancelled", { exact: true }).waitFor();
    const done = CALLS - (await calls.calls.count({}));
    expect(done).toBeGreaterThan(0);
    expect(done).toBeLessThan(CALLS);
    await shoot(page, "replay-cancelled");
    await page.keyboard.press("Escape");
    // The page also shows the run to other operators.
    const runs = page.getByRole("region", { name: "Recent replays and discards" });
    await runs.getByText("by otto: the runner is mended").waitFor();
    await runs.getByRole("button", { name: "Resume" }).click();
    await runs.getByText("9,000 calls replayed", { exact: true }).waitFor({ timeout: 120_000 });
    expect(await calls.calls.count({})).toBe(0);
  });

  test.each(["", "?job=7%2F1"])("calls that fail after the count are not discarded (%s)", async (query) => {
    await calls.fail([{}, {}]);
    const page = await open({ hash: `#/failed${query}` });
    await page.getByRole("button", { name: "Discard all…" }).click();
    const go = page.getByRole("button", { name: "Discard 2 calls" });
    await go.waitFor();
    const [later = ""] = await calls.fail([{}]);
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await go.click();
    await page.getByRole("dialog").getByText("2 calls discarded").waitFor();
    expect(await calls.find(later)).toBeDefined();
  });

  test("at most as many calls are discarded as were counted, even if a call's failure is dated before the count", async () => {
    const [id] = await calls.fail([{}]);
    if (id === undefined) throw new Error("no call");
    const of = { id, queue: (await calls.find(id)).queue };
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Discard all…" }).click();
    const go = page.getByRole("button", { name: "Discard 1 call", exact: true });
    await go.waitFor();
    // A producer whose clock is behind writes such a time.
    await multiplyFailed(redis.partition, { of, copies: 3, everyMs: -7 });
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await go.click();
    await page.getByRole("dialog").getByText("1 call discarded").waitFor();
    expect(await calls.calls.count({})).toBe(3);
  });

  test("with force ticked, nothing can be started before those calls are counted too, and unticking removes their refusal", async () => {
    const old = Date.now() - 400 * 86_400_000;
    await calls.fail([{}, { acceptedAt: old }, { acceptedAt: old }]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Replay all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason" }).fill("the runner is mended");
    await dialog.getByRole("button", { name: "Replay 1 call", exact: true }).waitFor();
    const counts: Route[] = [];
    await page.route("**/api/v1/failed/replays", (route) =>
      route.request().method() === "POST" ? void counts.push(route) : route.continue(),
    );
    const force = dialog.getByRole("checkbox");
    await force.check();
    await expect.poll(() => counts.length).toBe(1);
    const go = dialog.getByRole("button", { name: "Replay", exact: true });
    expect(await go.isDisabled()).toBe(true);
    expect(await dialog.getByText("Counting").isVisible()).toBe(true);
    await counts[0]?.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } });
    await dialog.getByText("Redis is away").waitFor();
    expect(await go.isDisabled()).toBe(true);
    await page.unroute("**/api/v1/failed/replays");
    await force.uncheck();
    await dialog.getByRole("button", { name: "Replay 1 call", exact: true }).waitFor();
    expect(await dialog.getByRole("alert").count()).toBe(0);
    await force.check();
    await dialog.getByRole("button", { name: "Replay 3 calls" }).click();
    await dialog.getByText("3 calls replayed").waitFor();
  });

  test("the count of failed calls links to exactly these for a job and for all callbacks, but not for a single receiver", async () => {
    const [id] = await calls.fail([{ jobId: 1 }]);
    if (id === undefined) throw new Error("no call");
    const of = { id, queue: (await calls.find(id)).queue };
    const queues = ["callback/7/1/receiver.example.com", "callback/7/2/other.example.com"];
    await multiplyFailed(redis.partition, { of, copies: 4, queues });
    // The callbacks have a row of their own once they were paused.
    await openJobs(redis.partitions).pause("callback", { at: Date.now(), by: "otto", reason: "x" });
    const page = await open({ hash: "#/jobs" });
    const row = (job: string) => page.getByRole("row").filter({ has: page.getByText(job, { exact: true }) });
    await row("callback/receiver.example.com").getByText("2", { exact: true }).waitFor();
    expect(await row("callback/receiver.example.com").getByRole("link").count()).toBe(0);
    await page.getByRole("row").filter({ hasText: "paused" }).getByRole("link", { name: "4" }).click();
    await page.getByRole("heading", { name: "4 calls", exact: true }).waitFor();
    await page.goBack();
    await row("7/1").getByRole("link", { name: "1", exact: true }).click();
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
  });

  test("the filter of a job finds its calls even with the longest ids", async () => {
    const [serviceId, jobId] = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1];
    await calls.fail([{ serviceId, jobId }, { jobId: 1 }]);
    const page = await open({ hash: `#/failed?job=${serviceId}%2F${jobId}` });
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    await rows(page).getByText(`${serviceId}/${jobId}`).waitFor();
  });

  test.each(["job=callback%2Freceiver.example.com", "job=7", "job=07%2F1", "job=", "origin=", "since=2h"])(
    "an address with an invalid filter (%s) lists no calls, and offers no action",
    async (query) => {
      await calls.fail([{}]);
      const page = await open({ hash: `#/failed?${query}` });
      await page.getByRole("alert").getByText("Invalid filter").waitFor();
      await shoot(page, "failed-by-no-address");
      expect(await page.getByRole("button", { name: /Replay|Discard/ }).count()).toBe(0);
      await page.getByRole("button", { name: "Show all failed calls" }).click();
      await rows(page).first().waitFor();
    },
  );

  test("calls of another filter do not stay listed if those of the current filter cannot be read", async () => {
    const [id] = await calls.fail([{ jobId: 1 }, { jobId: 2 }]);
    if (id === undefined) throw new Error("no call");
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: 300, everyMs: -7 });
    const page = await open({ hash: "#/failed" });
    await rows(page).first().waitFor();
    const isOfJob2 = (url: URL) =>
      url.pathname === "/api/v1/failed" && url.searchParams.get("job_id") === "2";
    await page.route(isOfJob2, (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    const urls: string[] = [];
    page.on("request", (request) => isOfJob2(new URL(request.url())) && urls.push(request.url()));
    await page.getByRole("combobox", { name: "Job" }).selectOption("7/2");
    const refusal = page.getByRole("alert").filter({ hasText: "Calls unavailable" });
    await refusal.getByText("Redis is away").waitFor();
    expect(await rows(page).count()).toBe(0);
    // A group has its own buttons, for the calls that it counts.
    expect(await page.getByRole("button", { name: /(?:Replay|Discard) all/ }).count()).toBe(0);
    await page.unroute(isOfJob2);
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    await expect.poll(() => rows(page).count()).toBe(1);
    expect(urls.filter((url) => url.includes("cursor="))).toEqual([]);
  });

  test("if a further page of the list fails, the page says so, keeps the listed calls, and continues from there", async () => {
    const [id] = await calls.fail([{}]);
    if (id === undefined) throw new Error("no call");
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: 299, everyMs: -7 });
    const page = await open({ hash: "#/failed" });
    await rows(page).first().waitFor();
    await page.route("**/api/v1/failed?*cursor=*", (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Redis is away" } }),
    );
    const refusal = page.getByRole("alert").filter({ hasText: "More entries unavailable" });
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, 200_000);
        return refusal.isVisible();
      })
      .toBe(true);
    await shoot(page, "failed-broken-off");
    await page.unroute("**/api/v1/failed?*cursor=*");
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, 200_000);
        return rows(page).last().getAttribute("data-index");
      })
      .toBe("299");
    expect(await refusal.count()).toBe(0);
  });

  test("a list of 100,000 failed calls scrolls without a stall, and the document has only the visible rows", async () => {
    const [id] = await calls.fail([{}]);
    if (id === undefined) throw new Error("no call");
    const { queue } = await calls.find(id);
    await multiplyFailed(redis.partition, { of: { id, queue }, copies: 99_999, everyMs: 7 });
    const page = await open({ hash: "#/failed" });
    await page.getByRole("heading", { name: "100,000 calls" }).waitFor();
    // The list moves down when the table of reasons appears, which is read separately.
    const reasons = page.getByRole("region", { name: "By job and reason" });
    await reasons.getByRole("row").filter({ hasText: "100,000" }).waitFor();
    await rows(page).first().waitFor();
    const layout = await watchLayout(page);
    for (let reached = 0; reached < 5000; ) {
      const heightOfAll = async () => Number(await page.evaluate("document.documentElement.scrollHeight"));
      const before = await heightOfAll();
      await page.mouse.wheel(0, 200_000);
      // The next turn of the wheel must wait until these rows have their place.
      await eventually("more rows", async () => (await heightOfAll()) > before);
      const index = await rows(page).last().getAttribute("data-index");
      expect(Number(index)).toBeGreaterThanOrEqual(reached);
      reached = Number(index);
    }
    expect(await rows(page).count()).toBeLessThan(100);
    const { longestMs, moved } = await layout();
    expect(longestMs).toBeLessThan(1000);
    expect(moved).toEqual([]);
  });
});
