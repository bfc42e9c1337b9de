import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";

const rows = (page: Page) =>
  page.getByRole("list", { name: "Failed calls, newest first" }).getByRole("listitem");

const checked = async (page: Page) =>
  Promise.all((await rows(page).all()).map((row) => row.getByRole("checkbox").isChecked()));

describe("the selection on the page of failed calls", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  test("one box selects all listed calls, Shift-click a range, and Escape clears the selection", async () => {
    await calls.fail([{}, {}, {}, {}, {}]);
    const page = await open({ hash: "#/failed" });
    await rows(page).nth(4).waitFor();
    const all = page.getByRole("checkbox", { name: "Select all listed calls" });
    await all.click();
    await page.getByText("5 selected").waitFor();
    expect(await checked(page)).toEqual([true, true, true, true, true]);
    await all.click();
    await page.getByRole("heading", { name: "5 calls" }).waitFor();
    await rows(page).nth(1).getByRole("checkbox").click();
    await rows(page)
      .nth(3)
      .getByRole("checkbox")
      .click({ modifiers: ["Shift"] });
    await page.getByText("3 selected").waitFor();
    expect(await checked(page)).toEqual([false, true, true, true, false]);
    expect(await all.evaluate((box) => "indeterminate" in box && box.indeterminate)).toBe(true);
    await shoot(page, "failed-range");
    expect(await violationsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "5 calls" }).waitFor();
  });

  test("a click on a heading sorts the rows, and a second click reverses the order", async () => {
    await calls.fail([{ path: "/hooks/b" }]);
    await calls.fail([{ path: "/hooks/a" }]);
    await calls.fail([{ path: "/hooks/c" }]);
    const page = await open({ hash: "#/failed" });
    await rows(page).nth(2).waitFor();
    const paths = async () =>
      Promise.all((await rows(page).all()).map((row) => row.getByText(/^\/hooks/).textContent()));
    const origin = page.getByRole("button", { name: "Origin" });
    await origin.click();
    await expect.poll(paths).toEqual(["/hooks/c", "/hooks/b", "/hooks/a"]);
    await origin.click();
    await expect.poll(paths).toEqual(["/hooks/a", "/hooks/b", "/hooks/c"]);
  });

  test("a text filter lists only the calls that contain it, and an action on all applies only to those", async () => {
    const [kept = ""] = await calls.fail([{}], "runner.refused", "422 no such order");
    await calls.fail([{}, {}], "runner.refused", "409 Duplicate order");
    const page = await open({ hash: "#/failed" });
    await rows(page).nth(2).waitFor();
    const field = page.getByRole("searchbox", { name: "Text" });
    await field.fill("duplicate");
    await field.press("Enter");
    await page.getByRole("heading", { name: "2 calls", exact: true }).waitFor();
    await expect.poll(() => rows(page).count()).toBe(2);
    await page.getByRole("button", { name: "Discard all…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await page.getByRole("button", { name: "Discard 2 calls" }).click();
    await page.getByRole("dialog").getByText("2 calls discarded").waitFor();
    expect(await calls.find(kept)).toBeDefined();
    expect(await calls.audited()).toContainEqual(
      expect.objectContaining({ selection: expect.stringMatching(/^--text duplicate --until /) }),
    );
  });

  test("a group is replayed or discarded from its own row", async () => {
    const [kept = ""] = await calls.fail([{ jobId: 1 }]);
    await calls.fail([{ jobId: 2 }, { jobId: 2 }]);
    const page = await open({ hash: "#/failed" });
    const group = page
      .getByRole("region", { name: "By job and reason" })
      .getByRole("row")
      .filter({ hasText: "7/2" });
    await group.getByRole("button", { name: "Replay…" }).waitFor();
    await group.getByRole("button", { name: "Discard…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("sent twice");
    await page.getByRole("button", { name: "Discard 2 calls" }).click();
    await page.getByRole("dialog").getByText("2 calls discarded").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
    expect(await calls.find(kept)).toBeDefined();
  });

  test("a replay shows its outcome as it changes: how many calls wait, are injected, and have failed again", async () => {
    await calls.fail([{ jobId: 1 }, { jobId: 1 }, { jobId: 2 }]);
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Replay all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason" }).fill("the runner is mended");
    await dialog.getByRole("button", { name: "Replay 3 calls" }).click();
    await dialog.getByText("3 waiting").waitFor();
    const jobs = openJobs(redis.partitions);
    const act = { at: Date.now(), by: "otto", reason: "x" };
    await jobs.pause("7/2", act);
    await calls.startProducer();
    await dialog.getByText("2 injected, 1 waiting").waitFor();
    calls.runnerAnswers("runner.refused");
    await jobs.resume("7/2", act);
    await dialog.getByText("2 injected, 1 failed again").waitFor();
    await shoot(page, "replay-came-of");
    expect(await violationsOf(page)).toEqual([]);
    await page.keyboard.press("Escape");
    const runs = page.getByRole("region", { name: "Recent replays and discards" });
    await runs.getByText("2 injected, 1 failed again").waitFor();
  });
});
