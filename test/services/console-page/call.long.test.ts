import { describe, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { SIZES, shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { delayCalls } from "../../support/delay-calls.ts";
import { needs } from "../../support/needs.ts";

const REASON = "the database is back since 03:10, and its pool of connections is twice as large";

describe("the page of a call", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  test("a replayed call shows all of its attempts and failures in order, the operator and reason of each replay, and the total", async () => {
    const [id = "", other = ""] = await calls.fail([{}, {}], "runner.failed", "503 the database is away");
    await calls.replay(await calls.find(id), { selection: "by id", reason: REASON });
    calls.runnerAnswers("runner.failed", "503 the cache is away");
    await calls.startProducer();
    await calls.untilFailed(2);
    calls.runnerAnswers();
    const page = await open({ hash: `#/calls/${id}` });
    await page.getByText("Attempts 4 to 6 failed").waitFor();
    await page.getByRole("button", { name: "Replay…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the cache is back too");
    await page.getByRole("button", { name: "Replay 1 call" }).click();
    await page.getByRole("dialog").getByText("1 call replayed").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("Attempt 7: the runner answered 2xx.").waitFor();
    await page.getByText("7 (2 replays)").waitFor();
    const titles = page.locator(".timeline .step-title");
    await expect
      .poll(() => titles.allTextContents())
      .toEqual([
        ...["Attempts 1 to 3 failed", "Failed", "Replayed by tester@fixture"],
        ...["Attempts 4 to 6 failed", "Failed", "Replayed by otto", "Injected into the runner"],
      ]);
    await page.getByText(REASON).waitFor();
    const attempts = page.locator(".timeline .step", { hasText: "Attempts 1 to 3 failed" });
    const timesOf = (part: string) =>
      attempts
        .locator(`${part} time`)
        .evaluateAll((times) => times.map((time) => time.getAttribute("datetime")));
    await page.getByText("3 attempts, same answer").first().click();
    const [first, , last] = await timesOf("details");
    expect(await timesOf(".step-time")).toEqual([first, last]);
    await page.getByText(/^Attempt 2, [\d:.]+: \d+ ms, by producer /).waitFor();
    await shoot(page, "call-replayed", { whole: true });
    await calls.discard(await calls.find(other), { selection: "by id", reason: "<b>sent</b> twice" });
    const phone = await open({ hash: `#/calls/${other}`, viewport: SIZES.phone, colorScheme: "dark" });
    await phone.getByText("Discarded by tester@fixture").waitFor();
    await phone.getByText("<b>sent</b> twice").waitFor();
    await shoot(phone, "call-discarded-phone", { whole: true });
  });

  test("an operator, but no viewer, can run a delayed call from its page, and all delayed calls of a job from the job's page", async () => {
    for (let i = 0; i < 3; i += 1) await calls.add();
    const [id = ""] = await delayCalls(redis.partition);
    const viewer = await open({ hash: `#/calls/${id}`, as: "viewer" });
    await viewer.getByText("delayed").first().waitFor();
    expect(await viewer.getByRole("button", { name: /^Run/ }).count()).toBe(0);
    const page = await open({ hash: `#/calls/${id}` });
    await page.getByRole("button", { name: "Run now…" }).click();
    await page.getByText("If the runner still fails, the attempt counts").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("the runner is repaired");
    await shoot(page, "call-run-now");
    await page.getByRole("button", { name: "Run call" }).click();
    await page.getByRole("button", { name: "Run now…" }).waitFor({ state: "detached" });
    await page.getByText("Run early by otto").waitFor();
    const job = await open({ hash: "#/jobs/7/1" });
    await job.getByRole("button", { name: "Run delayed calls…" }).click();
    await job.getByRole("textbox", { name: "Reason" }).fill("the runner is repaired");
    await shoot(job, "job-run-delayed");
    await job.getByRole("button", { name: "Run 2 delayed calls" }).click();
    await job.getByRole("button", { name: "Run delayed calls…" }).waitFor({ state: "detached" });
    const acts = (await calls.audited()).filter(({ action }) => action !== "sign_in");
    expect(acts).toMatchObject([
      { action: "run_now", call_id: id, by: "otto" },
      { action: "run_delayed", job: "7/1", by: "otto" },
    ]);
    const phone = await open({ hash: "#/jobs/7/1", viewport: SIZES.phone });
    await calls.add();
    await delayCalls(redis.partition);
    await phone.getByRole("button", { name: "Run delayed calls…" }).waitFor();
    await shoot(phone, "job-delayed-phone", { whole: true });
  });

  test("the page of a call says how many attempts are no longer kept", async () => {
    const [id = ""] = await calls.fail([{}], "runner.failed", "503 the database is away");
    for (let life = 2; life <= 3; life++) {
      await calls.replay(await calls.find(id), { selection: "by id", reason: "once more" });
      if (life === 3) break;
      calls.runnerAnswers("runner.failed", "503 the database is away");
      await calls.startProducer();
      await calls.untilFailed(1);
      await calls.stopProducer();
    }
    await redis.client.ltrim(`{postern}:attempts:${id}`, 4, -1);
    await eventually("it waits", async () => (await calls.calls.find(id)) === undefined);
    const page = await open({ hash: `#/calls/${id}` });
    await page.getByText("Attempts 4 to 6 failed").waitFor();
    await page.getByText("3 earlier attempts, no longer kept").waitFor();
  });
});
