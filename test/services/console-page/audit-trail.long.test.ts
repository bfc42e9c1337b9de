import type { Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createAudit } from "../../../shared/redis/audit/audit.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";

const EVIL = "<img src=x onerror=alert(1)> moved";

/** Returns the rows of the audit log, without their times. */
async function trailOf(page: Page): Promise<string[][]> {
  const rows = page.getByRole("region", { name: "Entries" }).getByRole("row");
  await rows.nth(1).waitFor();
  const [, ...entries] = await rows.all();
  return Promise.all(entries.map(async (row) => (await row.getByRole("cell").allTextContents()).slice(1)));
}

describe("the audit log on the page", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  test("a dialog announces that reading a body leaves a line, and the line appears only among the reads", async () => {
    const [id = ""] = await calls.fail([{}]);
    const page = await open({ hash: "#/audit?stream=reads", as: "viewer" });
    await page.getByText("No reads yet").waitFor();
    await page.goto(new URL(`#/calls/${id}`, page.url()).href);
    await page.getByRole("button", { name: /^Show body/ }).click();
    await page.getByText(`body of ${id}`).waitFor();
    await page.goto(new URL("#/audit", page.url()).href);
    expect(await trailOf(page)).toEqual([
      ["vera", "sign in", expect.stringMatching(/^session .*viewer from 127\.0\.0\.1$/), ""],
    ]);
    let held: Route | undefined;
    await page.route("**/api/v1/audit?*stream=reads*", (route) => {
      held = route;
    });
    await page.getByRole("button", { name: "Reads" }).click();
    const trail = page.getByRole("region", { name: "Entries" });
    await trail.getByText("Loading").waitFor();
    expect(await trail.getByRole("row").count()).toBe(0);
    await expect.poll(() => held).toBeDefined();
    await held?.continue();
    await page.getByText("read body").waitFor();
    expect(await trailOf(page)).toEqual([["vera", "read body", `${id.slice(0, 10)}…${id.slice(-6)}`, ""]]);
  });

  test("each act on the page leaves a row with author, target and reason, newest first, with a link to its call", async () => {
    const [id = ""] = await calls.fail([{}]);
    const page = await open({ hash: `#/calls/${id}` });
    await page.getByRole("button", { name: "Replay…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the runner is mended");
    await page.getByRole("button", { name: "Replay 1 call" }).click();
    await page.getByRole("dialog").getByText("1 call replayed").waitFor();
    await page.keyboard.press("Escape");
    await page.goto(new URL("#/jobs", page.url()).href);
    const job = page.getByRole("row").filter({ hasText: "7/1" });
    await job.getByRole("button", { name: "Pause…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill(EVIL);
    await page.getByRole("button", { name: "Pause job", exact: true }).click();
    await job.getByText(`by otto: ${EVIL}`).waitFor();
    await page.getByRole("link", { name: "Audit log" }).click();
    expect(await trailOf(page)).toEqual([
      ["otto", "pause", "job 7/1", EVIL],
      ["otto", "replay", `${id.slice(0, 10)}…${id.slice(-6)}`, "the runner is mended"],
      ["otto", "sign in", expect.stringMatching(/^session .*operator from 127\.0\.0\.1$/), ""],
    ]);
    await page.getByTitle(id).click();
    await page.getByRole("heading", { name: "Call", exact: true }).waitFor();
  });

  test("a bulk operation is one row with the number of its calls, which links to a line for each call", async () => {
    const ids = await calls.fail([{}, {}, {}]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Discard all…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await page.getByRole("button", { name: "Discard 3 calls" }).click();
    await page.getByRole("dialog").getByText("3 calls discarded").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Audit log" }).click();
    expect(await trailOf(page)).toEqual([
      ["otto", "discard", expect.stringMatching(/^3 calls--until /), "sent twice"],
      ["otto", "sign in", expect.stringMatching(/^session .*operator from 127\.0\.0\.1$/), ""],
    ]);
    await shoot(page, "audit-bulk");
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("link", { name: "3 calls" }).click();
    const lines = page.getByRole("region", { name: "Lines of the bulk operation" });
    for (const id of ids) await lines.getByTitle(id).waitFor();
    await lines.getByText("begin discard").waitFor();
    await page.getByRole("button", { name: /: show all$/ }).click();
    await page.getByRole("link", { name: "3 calls" }).waitFor();
  });

  test("a log of several pages is loaded further on demand, and has each entry once", async () => {
    const audit = createAudit(redis.partition, silentLogger);
    const numbers = Array.from({ length: 150 }, (_, i) => i);
    for (const n of numbers)
      await audit({
        at: n,
        action: "pause",
        job: "7/1",
        by: "root@ops",
        selection: "by name",
        reason: `no ${n}`,
      });
    const page = await open({ hash: "#/audit", as: "viewer" });
    const reasons = async () => (await trailOf(page)).map(([, , , why]) => why);
    const newestFirst = ["", ...numbers.map((n) => `no ${n}`).toReversed()];
    expect(await reasons()).toEqual(newestFirst.slice(0, 100));
    const more = page.getByRole("button", { name: "Show more" });
    await more.click();
    await page.getByText("no 0", { exact: true }).waitFor();
    expect(await reasons()).toEqual(newestFirst);
    expect(await more.count()).toBe(0);
  });
});
