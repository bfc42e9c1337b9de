import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { SIZES, shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";

const STEP_MS = 10_000;
/** Time for which each of ten calls was held back, in ms. */
const HELD = [60_000, ...Array<number>(9).fill(0)];
const CALL = { origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 };

/** Distance of each crosshair from the left of its chart. */
const CROSSHAIRS = `[...document.querySelectorAll(".u-cursor-x")].map((line) => new DOMMatrix(getComputedStyle(line).transform).e)`;

describe("the charts of the overview", needs("chromium"), () => {
  const redis = useRedis();
  const reports = useReports(redis);
  const { open } = useOperatorPage({ redis });
  const rates = (page: Page) => page.getByRole("img", { name: /^Calls per second/ });
  const latency = (page: Page) => page.getByRole("img", { name: /^Latency percentiles/ });

  /** Reports half an hour with ten calls in each interval, except ten minutes without any report. */
  async function reportHalfAnHour(): Promise<void> {
    await redis.client.flushdb();
    const now = Date.now();
    let at = now;
    const { log, flush } = await reports.start({ clock: () => at });
    for (at = now - 1_800_000; at <= now; at += STEP_MS) {
      if (now - at > 600_000 && now - at < 1_200_000) continue;
      for (const heldMs of HELD) {
        log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
        log.info("call.injected", { ...CALL, endToEndMs: heldMs + 40, heldMs });
      }
      await flush();
    }
    const { pause } = openJobs(redis.partitions);
    await pause("7/2", { at: now - 300_000, by: "alice", reason: "it loops" });
  }

  /** Moves the pointer to a fraction of a chart's width. */
  async function pointAt(page: Page, part: number): Promise<{ x: number; y: number }> {
    const over = rates(page).locator(".u-over");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    if (box === null) throw new Error("the chart has no room");
    const place = { x: box.x + box.width * part, y: box.y + box.height / 2 };
    await page.mouse.move(place.x, place.y);
    return place;
  }

  for (const [look, options] of [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark", viewport: SIZES.wide }],
    ["phone", { colorScheme: "light", viewport: SIZES.phone }],
  ] as const)
    test(`the tooltip shows the values at the cursor with their units, and the other chart's crosshair follows (${look})`, async () => {
      await reportHalfAnHour();
      const page = await open({ hash: "#/overview", ...options });
      await rates(page).locator("canvas").waitFor();
      await pointAt(page, 0.97);
      const tip = rates(page).locator(".chart-tip");
      await tip.getByText("1.0/s").first().waitFor();
      expect(await tip.innerText()).toContain("accepted");
      expect(await latency(page).locator(".chart-tip").isVisible()).toBe(false);
      const crosshairs = (await page.evaluate(CROSSHAIRS)) as number[];
      expect(crosshairs[0]).toBeGreaterThan(0);
      for (const x of crosshairs) expect(Math.abs(x - (crosshairs[0] ?? 0))).toBeLessThan(4);
      await shoot(page, `chart-tooltip-${look}`);
      expect(await violationsOf(page)).toEqual([]);
    });

  test("a chart has a gap where no process reported, and not a rate of zero", async () => {
    await reportHalfAnHour();
    const page = await open({ hash: "#/overview" });
    await rates(page).locator("canvas").waitFor();
    await pointAt(page, 0.74);
    const tip = rates(page).locator(".chart-tip");
    await tip.getByText("–").first().waitFor();
    expect(await tip.innerText()).not.toContain("/s");
  });

  test("a pause is marked in the charts, in their tooltips and in the list of markers", async () => {
    await reportHalfAnHour();
    const page = await open({ hash: "#/overview" });
    const events = page.getByRole("list", { name: "Events in the charts" });
    await events.getByText("alice paused 7/2").waitFor();
    await events.getByText("producer").first().waitFor();
    const tip = rates(page).locator(".chart-tip");
    for (
      let part = 0.88;
      part < 0.95 && !(await tip.getByText("alice paused 7/2").isVisible());
      part += 0.004
    )
      await pointAt(page, part);
    await tip.getByText("alice paused 7/2").waitFor();
  });

  test("the time paused or failed is a separate line, and no part of the delivery latency", async () => {
    await reportHalfAnHour();
    const page = await open({ hash: "#/overview" });
    await page.getByRole("region", { name: "Wait before a replay or resume" }).waitFor();
    const newest = (chart: ReturnType<typeof latency>) =>
      chart.locator("tr").filter({ hasText: "p99" }).locator(".u-value");
    await newest(latency(page))
      .getByText(/^\d+ ms$/)
      .waitFor();
    const held = page.getByRole("img", { name: /^Percentiles of the time in which/ });
    await newest(held)
      .getByText(/min$|s$/)
      .waitFor();
  });

  test("a click on a chart opens the calls of that minute", async () => {
    await reportHalfAnHour();
    const page = await open({ hash: "#/overview?job=7%2F1" });
    await rates(page).locator("canvas").waitFor();
    const asked = page.waitForRequest((request) => new URL(request.url()).pathname === "/api/v1/calls");
    const { x, y } = await pointAt(page, 0.9);
    await page.mouse.click(x, y);
    const { searchParams } = new URL((await asked).url());
    const [since, until] = ["since", "until"].map((name) => Date.parse(searchParams.get(name) ?? ""));
    expect((until ?? 0) - (since ?? 0)).toBe(59_999);
    expect(Date.now() - (since ?? 0)).toBeLessThan(600_000);
    expect(searchParams.get("job")).toBe("7/1");
    await page.getByRole("heading", { name: "Calls", exact: true }).waitFor();
    await page.getByRole("button", { name: /: show all times$/ }).click();
    await expect.poll(() => page.url()).not.toContain("from=");
  });

  test("a switch shows every time in UTC, also in the charts, and is remembered", async () => {
    await reportHalfAnHour();
    const page = await open({ hash: "#/overview" });
    const event = page.getByRole("listitem").filter({ hasText: "alice paused 7/2" }).locator("time");
    const iso = await event.getAttribute("datetime");
    const utc = iso?.slice(11, 19) ?? "";
    expect(await event.textContent()).not.toContain(utc);
    await page.getByRole("button", { name: "Show times in UTC" }).click();
    await event.getByText(utc).waitFor();
    await pointAt(page, 0.97);
    const tip = rates(page).locator(".chart-tip");
    const hour = new Date().toISOString().slice(11, 13);
    await expect.poll(async () => (await tip.innerText()).slice(0, 2)).toBe(hour);
    await page.reload();
    await event.getByText(utc).waitFor();
    await page.getByText("Times: UTC").waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });
});
