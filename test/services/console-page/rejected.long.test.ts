import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { REJECTED_KEPT, REJECTED_KEPT_MS } from "../../../shared/telemetry/rejected/record.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { useRejections } from "../console/rejections.ts";

function configured(): string {
  const configDir = join(tempDir(), "config");
  const secret = "a-secret-that-nobody-is-shown";
  writeConfig(configDir, {
    postern: {},
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "bearer", secret }] },
  });
  return configDir;
}

describe("the page of refused requests", needs("chromium"), () => {
  const redis = useRedis();
  const rejections = useRejections(redis);
  const reports = useReports(redis);
  const { open } = useOperatorPage({ redis, operator: { configDir: configured() } });
  const rows = (page: Page) => page.getByRole("region", { name: /refused requests?$/ }).getByRole("row");

  test("a search for the id of a refused request says that it is not a call, and links to the request", async () => {
    const [{ id = "" } = {}] = rejections.newest;
    const page = await open({ hash: "#/calls" });
    await page.getByRole("searchbox").fill(id.slice(0, 19));
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: id }).click();
    await page.getByRole("dialog").getByText("differs from /a by case").waitFor();
  });

  test("requests are listed newest first with their reason, and one shows all stored data, without any secret", async () => {
    const page = await open({ hash: "#/refused", as: "viewer" });
    await page.getByRole("heading", { name: "3 refused requests" }).waitFor();
    for (const [i, why] of ["differs from /a by case", "too long", "missing"].entries())
      expect(
        await rows(page)
          .nth(i + 1)
          .textContent(),
      ).toContain(why);
    await rows(page).nth(3).getByText("d-1").waitFor();
    await rows(page).nth(3).getByRole("button").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Stripe-Signature").waitFor();
    const text = await dialog.innerText();
    expect(text).toContain("the sender may put its signature in another place");
    for (const kept of [
      "192.0.2.1",
      "webhook.credential_rejected",
      "POST /a",
      "token",
      "X-Key",
      "12 B",
      "d-1",
    ])
      expect(text).toContain(kept);
    await dialog.getByRole("button", { name: "Show body" }).click();
    await dialog.getByText("Body not kept").waitFor();
    await shoot(page, "rejected-request");
    expect(await violationsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await rows(page).nth(2).getByRole("button").click();
    await dialog.getByRole("button", { name: "Show body" }).click();
    await dialog.getByText(/7b 22 61 22 3a 31 7d 00/).waitFor();
    expect(await page.locator("body").innerText()).not.toContain("hidden");
  });

  test("an endpoint's number of refused requests links to only those, and another path or no path can be entered there", async () => {
    const { log, flush } = await reports.start();
    const refused = { path: "/a", code: "webhook.credential_rejected", reason: "missing" };
    log.warn("webhook.refused", { ...refused, times: 2 });
    await flush();
    const page = await open({ hash: "#/endpoints" });
    const endpoint = page.getByRole("row").filter({ hasText: "/a" });
    await endpoint.getByText("2 requests").waitFor();
    await endpoint.getByRole("link", { name: "2", exact: true }).click();
    await page.getByRole("heading", { name: "2 refused requests" }).waitFor();
    const path = page.getByRole("searchbox", { name: "Endpoint" });
    expect([await path.inputValue(), await rows(page).count()]).toEqual(["/a", 3]);
    await path.fill("/none");
    await path.press("Enter");
    await page.getByText("No matching refused requests").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await page.getByRole("heading", { name: "3 refused requests" }).waitFor();
  });

  test("requests are grouped by endpoint and reason, and each group has an address that lists only its requests", async () => {
    const page = await open({ hash: "#/refused" });
    const groups = page.getByRole("region", { name: "By endpoint and reason" }).getByRole("row");
    await groups.filter({ hasText: "not configured" }).getByText("differs from /a by case").waitFor();
    expect(await groups.count()).toBe(4);
    const oldest = groups.filter({ hasText: "missing" }).locator("[data-label=Oldest] time");
    expect(await oldest.getAttribute("datetime")).toBe(new Date(rejections.newest[2]?.at ?? 0).toISOString());
    await groups.filter({ hasText: "missing" }).getByRole("link").click();
    await page.getByRole("heading", { name: "1 refused request", exact: true }).waitFor();
    await rows(page).nth(1).getByText("missing").waitFor();
    expect(await groups.count()).toBe(4);
    await shoot(page, "refused-group");
    expect(await violationsOf(page)).toEqual([]);
    const colleague = await page.context().newPage();
    await colleague.goto(page.url());
    await colleague.getByRole("heading", { name: "1 refused request", exact: true }).waitFor();
    await groups.filter({ hasText: "not configured" }).getByRole("link").click();
    await rows(page).nth(1).getByText("differs from /a by case").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await page.getByRole("heading", { name: "3 refused requests" }).waitFor();
  });

  test("an unreadable body is not reported as lost, and an empty list says how long refused requests are kept", async () => {
    const page = await open({ hash: "#/refused" });
    await rows(page).nth(2).getByRole("button").click();
    await page.route("**/api/v1/rejected/*/body", (route) =>
      route.fulfill({ status: 503, json: { code: "redis.unavailable", detail: "Redis is away" } }),
    );
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Show body" }).click();
    await dialog.getByText("Body unavailable").waitFor();
    await dialog.getByText("Redis is away").waitFor();
    await page.unroute("**/api/v1/rejected/*/body");
    await dialog.getByRole("button", { name: "Show body" }).click();
    await dialog.getByText(/7b 22 61 22 3a 31 7d 00/).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("searchbox", { name: "Endpoint" }).fill("/none");
    await page.getByRole("searchbox", { name: "Endpoint" }).press("Enter");
    const days = REJECTED_KEPT_MS / 86_400_000;
    await page
      .getByText(`The newest ${REJECTED_KEPT} refused requests are kept, for at most ${days} days`)
      .waitFor();
  });

  test("a page that becomes visible during a request does not send a second one", async () => {
    const page = await open({ hash: "#/refused" });
    await page.clock.install();
    const held: Route[] = [];
    await page.route("**/api/v1/rejected?*", (route) => void held.push(route));
    await page.reload();
    await expect.poll(() => held.length).toBe(1);
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(() => held.length).toBe(2);
    const answer = { json: { count: 0, requests: [], next: null } };
    for (const route of held.splice(0)) {
      const answered = page.waitForEvent("requestfinished", (request) => request === route.request());
      await route.fulfill(answer);
      await answered;
    }
    await page.getByText("No refused requests").waitFor();
    await page.evaluate("new Promise(requestAnimationFrame)");
    await page.clock.runFor(25_000);
    // Every request that was sent before this one has arrived now.
    await page.evaluate("fetch('session').then(({ status }) => status)");
    expect(held).toHaveLength(1);
  });
});
