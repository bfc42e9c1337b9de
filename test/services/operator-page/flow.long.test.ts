import { describe, expect, test } from "vitest";
import { SIZES, watchLayout } from "../../fixtures/chromium.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { needs } from "../../support/needs.ts";

const INJECTED = {
  ...{ origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 },
};

describe("the page of what flows", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const reports = useReports(redis);
  const { open, start } = useOperatorPage({ redis });

  test("what needs somebody stands first, with where to go: failed calls, no producer, two releases side by side", async () => {
    await calls.fail([{}, {}]);
    await reports.start({ kind: "webhooks", config: { a: 1 } });
    await reports.start({ kind: "webhooks", config: { a: 2 } });
    const page = await open({ hash: "#/flow" });
    const attention = page.getByRole("region", { name: "What needs somebody" });
    await attention.getByText("No producer is alive").waitFor();
    await attention.getByText("2 configurations of webhooks run side by side.").waitFor();
    await attention.getByRole("link", { name: "2 calls failed and wait for somebody" }).click();
    await page.getByRole("heading", { name: "2 calls" }).waitFor();
    expect(await page.getByRole("link", { name: /^Failed/ }).textContent()).toContain("2");
  });

  test("webhooks that are refused in numbers are told of, and lead to the endpoint and why", async () => {
    const { log, flush } = await reports.start();
    const refused = {
      path: "/hooks/a",
      code: "webhook.credential_rejected",
      reason: "signature does not match",
    };
    log.warn("webhook.refused", { ...refused, times: 12 });
    for (let i = 0; i < 8; i++) log.info("webhook.accepted", { path: "/hooks/b", jobId: 1, replayed: false });
    await flush();
    const page = await open({ hash: "#/flow" });
    await page.getByRole("link", { name: "12 of 20 webhooks were refused in the last 10 min" }).click();
    const row = page.getByRole("row").filter({ hasText: "/hooks/a" });
    await row.getByText("signature does not match").waitFor();
  });

  test("a runner that cannot be reached is told of, with why and since when, until it answers", async () => {
    const its = { name: "default", url: "http://127.0.0.1:8645" };
    const { tellRunners } = await reports.start();
    await tellRunners([{ ...its, state: "away", since: Date.now(), reason: "connect ECONNREFUSED" }]);
    const page = await open({ hash: "#/flow" });
    const told = page.getByText(/Runner “default” cannot be reached since \d\d:\d\d:\d\d/);
    await told.waitFor();
    const row = page.getByRole("row").filter({ hasText: its.url });
    await row.getByText("cannot be reached").waitFor();
    await row.getByText("connect ECONNREFUSED").waitFor();
    await tellRunners([{ ...its, state: "answers", answeredAt: Date.now() }]);
    await row.getByText("answers").waitFor();
    await told.waitFor({ state: "detached" });
  });

  test("the numbers of now come by themselves, over one stream and without another question, and nothing moves", async () => {
    const { log, flush } = await reports.start();
    for (let i = 0; i < 40; i++) {
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      log.info("call.injected", { ...INJECTED, endToEndMs: 40 });
    }
    await flush();
    const page = await open({ hash: "#/flow" });
    await page.getByRole("row").filter({ hasText: "7/1" }).first().waitFor();
    await page.getByRole("img", { name: /^Calls accepted/ }).waitFor();
    await calls.fail([{}]);
    await page.getByText("1 call failed and waits for somebody").waitFor();
    const layout = await watchLayout(page);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    for (const failed of [2, 3, 4]) {
      await calls.fail([{}]);
      await page.getByText(`${failed} calls failed and wait for somebody`).waitFor();
    }
    expect(asked.filter((path) => path.startsWith("/api/"))).toEqual([]);
    expect(await layout()).toMatchObject({ shifted: 0, moved: [] });
  });

  test.each([
    ["at a desk", SIZES.desk],
    ["on a phone", SIZES.phone],
  ])(
    "a chart and its numbers keep their place %s, however long the numbers get",
    async (_where, viewport) => {
      let at = Date.now() - 120_000;
      const { log, flush } = await reports.start({ clock: () => at });
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      log.info("call.injected", { ...INJECTED, endToEndMs: 4 });
      await flush();
      const page = await open({ hash: "#/flow", viewport });
      const chart = page.getByRole("img", { name: /^Calls accepted/ });
      await chart.locator("tr").filter({ hasText: "refused0" }).waitFor();
      const shown = page.locator(".chart, .chart tr");
      const places = async () => Promise.all((await shown.all()).map((each) => each.boundingBox()));
      const before = await places();
      at = Date.now() - 60_000;
      for (let i = 0; i < 9; i++)
        log.warn("webhook.refused", {
          path: "/hooks/a",
          code: "request.too_large",
          reason: "",
          times: 7_000_000,
        });
      log.info("call.injected", { ...INJECTED, endToEndMs: 40_000_000 });
      await flush();
      await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
      await chart.locator("tr").filter({ hasText: "refused1,050,000" }).waitFor();
      expect(await places()).toEqual(before);
    },
  );

  test("of a day whole steps are drawn, so that it does not look as if calls had stopped just now", async () => {
    const stepBegan = Date.now() - (Date.now() % 300_000);
    const at = stepBegan - 1;
    const { log, flush } = await reports.start({ clock: () => at });
    const refused = { path: "/hooks/a", code: "request.too_large", reason: "" };
    log.warn("webhook.refused", { ...refused, times: 1800 });
    await flush();
    const { address } = await start({ clock: () => stepBegan + 60_000 });
    const page = await open({ hash: "#/flow?span=24h", at: address });
    const tile = page.locator(".tile").filter({ hasText: "Refused" });
    await tile.getByText("6.0").waitFor();
    const legend = page.getByRole("img", { name: /^Calls accepted/ }).locator("tr");
    await legend.filter({ hasText: "refused6.0" }).waitFor();
  });

  test("where no stream gets through, the page asks now and then, and shows the same", async () => {
    const page = await open({ hash: "#/flow" });
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    await calls.fail([{}]);
    await page.getByText("1 call failed and waits for somebody").waitFor();
  });

  test("if the service is away the page says so, keeps what it has, and goes on by itself when it is back", async () => {
    await calls.fail([{}]);
    const service = await start();
    const page = await open({ hash: "#/flow", at: service.address });
    await page.getByText("1 call failed and waits for somebody").waitFor();
    await service.close();
    await page.getByText("What you see is not of now").waitFor();
    await page.getByText(/^As of /).waitFor();
    expect(await page.getByText("1 call failed and waits for somebody").isVisible()).toBe(true);
    await calls.fail([{}]);
    await start({ address: service.address });
    await page.getByText("2 calls failed and wait for somebody").waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("if only what flows cannot be read, the page says why", async () => {
    const page = await open({ hash: "#/calls" });
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.route("**/api/v1/flow*", (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Too much is asked for" } }),
    );
    await page.getByRole("navigation").getByRole("link", { name: "Flow" }).click();
    await page.getByRole("alert").getByText("Too much is asked for").waitFor();
  });

  test("a session that is ended elsewhere ends what is shown here", async () => {
    const service = await start();
    const page = await open({ hash: "#/flow", at: service.address });
    await page.getByText("Live", { exact: true }).waitFor();
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
  });
});
