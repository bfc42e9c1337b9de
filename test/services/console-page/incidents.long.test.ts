import { createHmac, randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { createStack, type Stack, untilReady } from "../../../shared/dev/stack.ts";
import { shoot, useChromium } from "../../fixtures/chromium.ts";
import { TOKENS, TWO_TOKENS } from "../../fixtures/console.ts";
import { openByKeys, signIn } from "../../fixtures/console-page.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { RUNNER_SECRET } from "../../fixtures/producer.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { type Answer, send } from "../../support/http.ts";
import { needs } from "../../support/needs.ts";
import { tempDir } from "../../support/temp-dir.ts";

const OLD = "the-secret-of-the-sender-until-today";
const NEW = "the-secret-of-the-sender-from-today-on";
/** Timeout for counts: processes report every ten seconds, and the page polls as often. */
const COUNTED = { timeout: 60_000 };

/** Runs real processes, and an operator on call who uses only the page. */
describe("an operator on call who uses only the page", needs("chromium"), () => {
  const redis = useRedis();
  const runner = useFakeRunner();
  const browsing = useChromium();
  const configDir = join(tempDir(), "config");
  let stack: Stack;
  let gateway: Part;
  let operator: Part;
  let page: Page;

  function configure(secret: string | string[]): void {
    writeConfig(configDir, {
      postern: {
        drain_secs: 0,
        redis: { url: redis.url },
        runner: { url: runner.url, secret: RUNNER_SECRET },
      },
      webhooks: {
        bind_address: "127.0.0.1:0",
        endpoints: [
          { path: "/hooks/mail", job_id: 1, auth: "none" },
          { path: "/hooks/orders", job_id: 2, auth: "none" },
          { path: "/hooks/github", preset: "github", secret, job_id: 3 },
        ],
      },
      operator: { bind_address: "127.0.0.1:0", tokens: [...TWO_TOKENS] },
    });
  }

  beforeEach(async () => {
    await redis.client.flushdb();
    configure(OLD);
    stack = createStack({ configDir, env: process.env });
    gateway = await stack.start("webhooks", { args: ["--service-id", "7"] });
    const producer = await stack.start("producer");
    operator = await stack.start("operator");
    for (const part of [gateway, producer, operator]) await untilReady(part);
    page = await browsing.open(`http://${operator.address}/`);
    await signIn(page, TOKENS.operator);
    await page.getByText("Nothing needs attention.").waitFor();
  });
  afterEach(() => Promise.all(stack.parts.map((part) => part.kill("SIGKILL"))));

  const post = (path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> =>
    send(gateway.address, { path, headers, body: JSON.stringify(body) });

  function push(secret: string): Promise<Answer> {
    const body = { ref: "refs/heads/main" };
    const mac = createHmac("sha256", secret).update(JSON.stringify(body)).digest("hex");
    return post("/hooks/github", body, {
      "Content-Type": "application/json",
      "X-GitHub-Event": "push",
      "X-GitHub-Delivery": randomUUID(),
      "X-Hub-Signature-256": `sha256=${mac}`,
    });
  }

  test("sees a runner that refuses one job, finds the reason, and sees all calls delivered after the fix", async () => {
    const detail = "currency EURO is not one of EUR, USD";
    const refusal = {
      status: 422,
      headers: { "content-type": "application/problem+json" },
      body: JSON.stringify({ title: "Unprocessable", detail }),
    };
    runner.answer = ({ path }) => (path === "/jobs/2" ? refusal : { status: 200 });
    const orders = () => runner.offers.filter(({ path }) => path === "/jobs/2");
    for (const id of [1, 2, 3])
      expect((await post("/hooks/orders", { id, currency: "EURO" })).status).toBe(202);
    expect((await post("/hooks/mail", { id: 9 })).status).toBe(202);
    await page.getByRole("link", { name: "3 failed calls to replay or discard" }).click();
    const group = page.getByRole("region", { name: "By job and reason" }).getByRole("row").nth(1);
    await group.getByText(`422 ${detail}`).waitFor();
    expect(await group.textContent()).toContain("7/2");
    await shoot(page, "incident-refused");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^Show body/ }).click();
    await page.getByText('"EURO"').waitFor();
    await shoot(page, "incident-refused-call");
    runner.answer = () => ({ status: 200 }); // the runner is fixed
    await page.goBack();
    await page.getByRole("button", { name: "Replay all…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the runner takes EURO since deploy 12");
    await page.getByRole("button", { name: "Replay 3 calls" }).click();
    await page.getByRole("dialog").getByText("3 calls replayed").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("No failed calls").waitFor();
    await expect.poll(() => orders().length).toBe(6);
    await openByKeys(page, "overview");
    await page.getByText("Nothing needs attention.").waitFor();
  });

  test("does not read that nothing needs attention while the console is unavailable", async () => {
    await operator.kill("SIGKILL");
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText("The current state cannot be read.").waitFor();
    expect(await attention.getByText("Nothing needs attention.").count()).toBe(0);
    await shoot(page, "incident-console-away");
  });

  test("sees which sender is refused after it changed its secret, how often and why, and sees that the fix works", async () => {
    expect((await push(OLD)).status).toBe(202);
    for (let i = 0; i < 6; i++) expect((await push(NEW)).status).toBe(401);
    const notice = page
      .getByRole("listitem")
      .filter({ hasText: "at /hooks/github: the credential does not match" });
    await notice.waitFor(COUNTED);
    await shoot(page, "incident-rotated");
    await notice.getByRole("link", { name: "6 of 7 webhooks were refused in the last 10 min" }).click();
    await page.getByRole("heading", { name: "6 refused requests" }).waitFor();
    await page.getByRole("cell").getByRole("button").first().click();
    await page.getByRole("dialog").getByText("x-hub-signature-256").first().waitFor();
    await shoot(page, "incident-rotated-request");
    await page.keyboard.press("Escape");
    configure([OLD, NEW]); // the operator adds the new secret, and restarts the gateway
    await gateway.kill("SIGTERM");
    await gateway.restart();
    await untilReady(gateway);
    for (let i = 0; i < 6; i++) expect((await push(NEW)).status).toBe(202);
    await page.getByRole("link", { name: "Endpoints" }).click();
    const row = page.getByRole("row").filter({ hasText: "/hooks/github" });
    await row.getByText("7", { exact: true }).waitFor(COUNTED);
    await openByKeys(page, "overview");
    await page.getByText("6 of 13 webhooks were refused in the last 10 min").waitFor(COUNTED);
  });
});
