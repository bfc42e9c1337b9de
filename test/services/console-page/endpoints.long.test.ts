import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { openEndpointTests } from "../../../shared/ingress/endpoint-tests.ts";
import { createSharedValue } from "../../../shared/pricing/rates/shared-value.ts";
import type { LiveToken } from "../../../shared/pricing/rates/source.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { shoot } from "../../fixtures/chromium.ts";
import { JUST_NOW, useOperatorPage } from "../../fixtures/console-page.ts";
import { aCall } from "../../fixtures/producer.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { needs } from "../../support/needs.ts";
import { tokenTable, tokenWith } from "../../support/rate-tokens.ts";
import { tempDir } from "../../support/temp-dir.ts";

const SECRET = "a-secret-that-nobody-is-shown";

function configured(): string {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, {
    postern: {},
    webhooks: {
      endpoints: [
        { path: "/hooks/<img src=x onerror=alert(1)>", job_id: 1, auth: "bearer", secret: SECRET },
        { path: "/hooks/github", preset: "github", secret: SECRET, job_id: 2 },
      ],
    },
    x402: {
      accepted_tokens: [tokenTable("3200")],
      job_policies: [{ service_id: 1, job_index: 8, invocation_mode: "disabled" }],
    },
    job_pricing: {
      "1": {
        "7": { price_wei: "1000000000000000", name: "report", description: "Writes one" },
        "8": { price_wei: "1000000000000000", name: "push" },
      },
    },
  });
  return configDir;
}

describe("the page of endpoints and jobs", needs("chromium"), () => {
  const redis = useRedis();
  const reports = useReports(redis);
  const configDir = configured();
  const { open, start } = useOperatorPage({ redis, operator: { configDir } });

  test("an endpoint's row shows why its requests were refused, and no secret", async () => {
    const at = Date.now() - 125_000;
    const { log, flush } = await reports.start({ clock: () => at });
    const refused = { path: "/hooks/github", code: "webhook.credential_rejected" };
    log.warn("webhook.refused", { ...refused, reason: "mismatch", times: 3 });
    await flush();
    const page = await open({ hash: "#/endpoints" });
    const row = page.getByRole("row").filter({ hasText: "/hooks/github" });
    await row.getByText("3 requests").waitFor();
    await row.getByText("the credential does not match").waitFor();
    const newest = row.getByText("2 min ago");
    expect(await newest.getAttribute("datetime")).toBe(new Date(at).toISOString());
    await page.getByText("/hooks/<img src=x onerror=alert(1)>").waitFor();
    expect(await page.content()).not.toContain(SECRET);
    await row.getByRole("link", { name: "3" }).click();
    await page.waitForFunction("location.hash.includes('#/refused')");
    expect(await page.getByRole("searchbox", { name: "Endpoint" }).inputValue()).toBe("/hooks/github");
  });

  test("an endpoint's page has its settings, a curl command and its calls, and an operator can hold and enable it there", async () => {
    await createEnqueue(redis.partition)(
      aCall({ job_id: 2, metadata: { "X-WEBHOOK-PATH": "/hooks/github" } }),
    );
    const page = await open({ hash: "#/endpoints" });
    await page.getByRole("link", { name: "/hooks/github" }).click();
    await page.getByRole("heading", { level: 1, name: "/hooks/github" }).waitFor();
    await page.getByText("job_id").waitFor();
    await page.getByText("postern send /hooks/github --dry-run").waitFor();
    await page.getByRole("region", { name: "Latest calls" }).getByText("waiting").waitFor();
    expect(await page.content()).not.toContain(SECRET);
    await page.getByRole("button", { name: "Disable or hold…" }).click();
    await page.getByText("never do, and some turn the webhook off").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("its database is being moved");
    await page.getByRole("button", { name: "Hold endpoint", exact: true }).click();
    await page.getByText("by otto: its database is being moved").waitFor();
    await shoot(page, "endpoint-held");
    const settings = await openEndpoints(redis.partitions).settings();
    expect(settings.get("/hooks/github")).toMatchObject({ state: "held", by: "otto" });
    await page.getByRole("button", { name: "Enable…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("it is moved");
    await page.getByRole("button", { name: "Enable endpoint", exact: true }).click();
    await page.getByRole("button", { name: "Disable or hold…" }).waitFor();
    expect((await openEndpoints(redis.partitions).settings()).size).toBe(0);
  });

  test("a test request is sent from its endpoint's page, which then links to the call", async () => {
    const page = await open({ hash: "#/endpoints/%2Fhooks%2Fgithub" });
    await page.getByRole("button", { name: "Send test…" }).click();
    await page.getByText("its job runs once").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("its secret is new");
    await page.getByRole("button", { name: "Send test", exact: true }).click();
    const tests = openEndpointTests(redis.partition);
    const order = await eventually("it is ordered", async () => (await tests.take(Date.now()))[0]);
    const call_id = `c_${"ab".repeat(16)}`;
    const detail = `accepted: job 2, call ${call_id}`;
    await tests.report(order, { status: 202, accepted: true, detail, call_id });
    await page.getByText("The gateway answered 202").waitFor();
    await page.getByText(detail).waitFor();
    expect(await page.getByRole("link", { name: "Show the call" }).getAttribute("href")).toContain(call_id);
    await shoot(page, "endpoint-tested");
  });

  test("a job's page has its name, its queue and its calls", async () => {
    await createEnqueue(redis.partition)(aCall({ service_id: 1, job_id: 7, origin: "x402" }));
    const page = await open({ hash: "#/jobs" });
    await page.getByRole("link", { name: "report (1/7)" }).click();
    await page.getByRole("heading", { level: 1, name: "Job report (1/7)" }).waitFor();
    await page.getByText("Writes one").waitFor();
    await page.getByRole("region", { name: "Latest calls" }).getByText("waiting").waitFor();
    await page.getByRole("region", { name: "Queue and settings" }).getByText("running").waitFor();
    await shoot(page, "job");
  });

  test("a named job without calls stays listed on Jobs, and Overview says that it had no calls", async () => {
    const { log, flush } = await reports.start();
    log.info("webhook.accepted", { path: "/hooks/github", jobId: 2, replayed: false });
    await flush();
    const page = await open({ hash: "#/jobs" });
    await page.getByRole("row").filter({ hasText: "report (1/7)" }).getByText("running").waitFor();
    await page.evaluate("location.hash = '#/overview'");
    const byJob = page.getByRole("region", { name: "By job, last hour" });
    await byJob.getByText("No calls: report (1/7)").waitFor();
  });

  test("a job's name is shown in lists of calls, on a call's page and in Overview", async () => {
    const added = aCall({ service_id: 1, job_id: 7, origin: "x402" });
    await createEnqueue(redis.partition)(added);
    const { log, flush } = await reports.start();
    const injected = {
      origin: "x402",
      serviceId: 1,
      jobId: 7,
      callId: "c_1",
      attempt: 1,
      injectMs: 1,
      endToEndMs: 40,
    };
    log.info("call.injected", injected);
    await flush();
    const page = await open({ hash: "#/calls" });
    for (const hash of ["#/calls", `#/calls/${added.id}`, "#/overview"]) {
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await page.getByRole("main").getByText("report (1/7)").filter({ visible: true }).first().waitFor();
    }
  });

  test("a job is paused and resumed with a reason, and the page shows who did it and why", async () => {
    await createEnqueue(redis.partition)(aCall({ job_id: 9 }));
    const page = await open({ hash: "#/jobs" });
    const row = page.getByRole("row").filter({ hasText: "7/9" });
    await row.getByText("running").waitFor();
    await row.getByRole("button", { name: "Pause…" }).click();
    await page.getByPlaceholder("The runner is down for maintenance until 14:00").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("its database is being moved");
    await page.getByRole("button", { name: "Pause job", exact: true }).click();
    await row.getByText("by otto: its database is being moved").waitFor();
    expect((await openJobs(redis.partitions).gates()).get("7/9")).toMatchObject({
      pausedBy: "otto",
      reason: "its database is being moved",
    });
    await row.getByRole("button", { name: "Resume…" }).click();
    await page.getByPlaceholder("The runner is back").waitFor();
    await page.getByRole("textbox", { name: "Reason" }).fill("it is moved");
    await page.getByRole("button", { name: "Resume job", exact: true }).click();
    await row.getByText("running").waitFor();
  });

  test("if the browser's clock is ahead, recent events are shown as just now, and deadlines as still ahead", async () => {
    await reports.start();
    const jobs = openJobs(redis.partitions);
    const now = Date.now();
    for (const job of ["7/1", "7/2"])
      await createEnqueue(redis.partition)(aCall({ job_id: Number(job.slice(2)) }));
    await jobs.pause("7/1", { at: now, by: "alice", reason: "it loops" });
    await jobs.throttle("7/2", 3_600_000);
    const page = await open({ hash: "#/jobs" });
    await page.clock.setFixedTime(now + 7_200_000);
    await page.reload();
    const row = (job: string) => page.getByRole("row").filter({ hasText: job });
    await row("7/1")
      .getByText(/^(?:now|\d+ s ago) by alice: it loops/)
      .waitFor();
    expect(await row("7/2").locator("time").getAttribute("title")).toMatch(/, in (?:1 h|59 min)$/);
    await page.evaluate("location.hash = '#/overview'");
    await page.getByRole("region", { name: "Processes" }).getByText(JUST_NOW).first().waitFor();
  });

  test("a token's rate is drawn with its bounds, over an hour or a day, with a gap where there was no rate", async () => {
    const source = { source: "http_json", url: "https://rates.example.com/eth", pointer: "/price" };
    const bounds = { min_rate: "2800", max_rate: "3600" };
    const rated = join(tempDir(), "config");
    writeConfig(rated, { postern: {}, x402: { accepted_tokens: [{ ...tokenTable(source), ...bounds }] } });
    const shared = createSharedValue(redis.partition, tokenWith(source, bounds) as LiveToken);
    const { now } = await shared.peek();
    await shared.put("3000", now - 3 * 3_600_000);
    await shared.put("3200.25", now - 600_000);
    const { address } = await start({ configDir: rated });
    const page = await open({ hash: "#/payments?view=prices", at: address });
    const drawn = (words: RegExp) => page.getByRole("img", { name: words }).waitFor();
    await drawn(
      /^Rate of USDC on eip155:8453 in the last hour: constant at 3,200.25; no usable rate for 4[89] min\.$/,
    );
    await page.getByText("http_json rates.example.com, read 10 min").waitFor();
    await page.getByText("maximum").waitFor();
    await page.getByRole("button", { name: "24 hours" }).click();
    await drawn(/in the last 24 hours: between 3,000 and 3,200.25; no usable rate for 23 h/);
  });

  test("a fixed rate has no chart, but a sentence that says where it is configured", async () => {
    const page = await open({ hash: "#/payments?view=prices" });
    await page.getByText("Fixed by").waitFor();
    expect(await page.getByRole("img", { name: /^Rate of/ }).count()).toBe(0);
  });

  test("prices of jobs are shown in tokens, with their symbol", async () => {
    const page = await open({ hash: "#/payments?view=prices" });
    const row = page.getByRole("row").filter({ hasText: "1/7" });
    await row.getByText("3.2 USDC").waitFor();
    expect(await row.textContent()).toContain("Writes one");
  });

  test("a job's page says how to buy the job, unless its policy is disabled", async () => {
    const page = await open({ hash: "#/jobs/1/7" });
    await page.getByText("Sold for payment").waitFor();
    await page.evaluate("location.hash = '#/jobs/1/8'");
    await page.getByRole("heading", { name: "push (1/8)" }).waitFor();
    await expect.poll(() => page.getByText("Sold for payment").count()).toBe(0);
  });
});
