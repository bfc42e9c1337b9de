import type { Locator, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { SIZES, watchLayout } from "../../fixtures/chromium.ts";
import { runFor, useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";
import { needs } from "../../support/needs.ts";

const INJECTED = {
  ...{ origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 },
};

describe("the overview page", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const reports = useReports(redis);
  const { open, start } = useOperatorPage({ redis });

  test("problems come first, each with a link: failed calls, no producer, two configurations, a refused configuration", async () => {
    await calls.fail([{}, {}]);
    await reports.start({ kind: "webhooks", config: { a: 1 } });
    const second = await reports.start({ kind: "webhooks", config: { a: 2 } });
    second.configured({ a: 2 }, "webhooks.toml:3: is wrong");
    await second.flush();
    const page = await open({ hash: "#/overview" });
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText("No producer is running").waitFor();
    await attention.getByText("webhooks: 2 different configurations are running.").waitFor();
    await attention
      .getByText("its newest configuration is not in force: webhooks.toml:3: is wrong")
      .waitFor();
    await attention.getByRole("link", { name: "2 failed calls to replay or discard" }).click();
    await page.getByRole("heading", { name: "2 calls" }).waitFor();
    expect(await page.getByRole("link", { name: /^Failed/ }).textContent()).toContain("2");
  });

  test("every problem is visible, even if there are many", async () => {
    const lines = 12;
    const { tellRunners } = await reports.start();
    const health = { state: "away", since: Date.now(), reason: "connect ECONNREFUSED" } as const;
    await tellRunners(
      Array.from({ length: lines }, (_, i) => ({
        ...health,
        name: `r${i}`,
        url: `http://127.0.0.1:${9000 + i}`,
      })),
    );
    const page = await open({ hash: "#/overview", viewport: { width: 1400, height: 1000 } });
    const box = page.getByRole("region", { name: "Needs attention" });
    await box
      .getByText(/is unreachable/)
      .nth(lines - 1)
      .waitFor();
    const places = async (of: Locator) => (await of.boundingBox()) ?? { y: 0, height: 0 };
    const { y, height } = await places(box);
    const last = await places(box.getByRole("listitem").last());
    expect(last.y + last.height).toBeLessThanOrEqual(y + height);
  });

  /** Reports twenty webhooks, of which these were refused. */
  async function refuseWebhooks(times: number): Promise<void> {
    const { log, flush } = await reports.start();
    const refused = { path: "/hooks/a", code: "webhook.credential_rejected", reason: "mismatch" };
    log.warn("webhook.refused", { ...refused, times });
    for (let i = times; i < 20; i++)
      log.info("webhook.accepted", { path: "/hooks/b", jobId: 1, replayed: false });
    await flush();
  }

  test("refused webhooks are shown at once, even while a job is chosen", async () => {
    await refuseWebhooks(12);
    const page = await open({ hash: "#/overview?job=7%2F1" });
    const attention = page.getByRole("region", { name: "Needs attention, all jobs" });
    const notice = attention.getByRole("listitem").filter({ hasText: "12 of 12 webhooks were refused" });
    await notice.getByText(/ The latest within the last [12] min\.$/).waitFor();
  });

  test("while the answer for another job or span is in flight, no earlier answer is shown in its place", async () => {
    const { log, flush } = await reports.start();
    log.info("call.injected", { ...INJECTED, endToEndMs: 40 });
    await flush();
    const page = await open({ hash: "#/nowhere" });
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.evaluate("location.hash = '#/overview'");
    const shown = page.getByRole("img").or(page.getByRole("region", { name: /^By job, last/ }));
    await expect.poll(() => shown.count()).toBe(3);
    for (const { hash, asked, table } of [
      { hash: "#/overview?job=7%2F1", asked: "job=7%2F1", table: "By job, last hour" },
      { hash: "#/overview?job=7%2F1&span=24h", asked: "span=24h&job=7%2F1", table: "By job, last 24 hours" },
    ]) {
      const held: Route[] = [];
      await page.route(`**/api/v1/flow?*${asked}*`, (route) => void held.push(route));
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await expect.poll(() => held.length).toBe(1);
      expect([hash, await shown.count()]).toEqual([hash, 0]);
      await page.getByText("Loading", { exact: true }).waitFor();
      await page.unroute(`**/api/v1/flow?*${asked}*`);
      await held[0]?.continue();
      await page.getByRole("region", { name: table }).getByRole("row").filter({ hasText: "7/1" }).waitFor();
    }
  });

  test.each(["overview", "flow", "queues"])(
    "while an answer is missing (%s), the page says how old its data is, and does not say that all is well",
    async (of) => {
      await calls.startProducer();
      const page = await open({ hash: "#/nowhere" });
      await page.route("**/api/v1/live*", (route) => route.abort());
      await page.clock.install();
      await page.evaluate("location.hash = '#/overview?job=7%2F1'");
      await page.getByText("Nothing needs attention.").waitFor();
      await page.getByText("Live", { exact: true }).waitFor();
      await page.route(`**/api/v1/${of}*`, () => {});
      await runFor(page, 25);
      await page.getByText(/^As of \d+ s ago$/).waitFor();
      expect(await page.getByText("Live", { exact: true }).count()).toBe(0);
      // The counts of a job say nothing about problems.
      const [words] = of === "queues" ? ["Nothing needs attention."] : ["The current state cannot be read."];
      await page
        .getByRole("region", { name: "Needs attention" })
        .getByText(words ?? "")
        .waitFor();
    },
  );

  test("if the chosen job or origin has no calls, the page says that about the choice, and does not suggest to send one", async () => {
    const page = await open({ hash: "#/overview?job=7%2F9&origin=webhook" });
    await page.getByText("No webhook calls for job 7/9 in the last hour").waitFor();
    expect(await page.getByText("Send one to an endpoint").count()).toBe(0);
    await page.getByRole("link", { name: "Show all jobs and origins" }).click();
    await page.getByText("No calls in the last hour").waitFor();
  });

  test("many refused webhooks are reported with endpoint and reason, and link to these requests", async () => {
    const { log, flush } = await reports.start();
    const refused = {
      path: "/hooks/a",
      code: "webhook.credential_rejected",
      reason: "mismatch",
    };
    log.warn("webhook.refused", { ...refused, times: 12 });
    for (let i = 0; i < 8; i++) log.info("webhook.accepted", { path: "/hooks/b", jobId: 1, replayed: false });
    await flush();
    const page = await open({ hash: "#/overview" });
    await page.getByText(/ at \/hooks\/a: the credential does not match\. The latest within/).waitFor();
    await page.getByRole("link", { name: "12 of 12 webhooks were refused in the last 10 min" }).click();
    await page.getByRole("heading", { name: "Refused requests", level: 1 }).waitFor();
    expect(new URL(page.url()).hash).toBe("#/refused?endpoint=%2Fhooks%2Fa");
  });

  test("calls that wait for their next attempt are reported as delayed, with the last due time, and not as a problem of their jobs", async () => {
    await calls.startProducer();
    const old = Date.now() - 3_600_000;
    const queue = "webhook/7/9";
    for (const [id, inMs] of [
      ["c_1", 60_000],
      ["c_2", 600_000],
    ] as const) {
      await redis.client.sadd(keys.queues, queue);
      await redis.client.hset(keys.inQueue(queue, id), "timestamp", old);
      await redis.client.zadd(keys.since(queue), old, id);
      await redis.client.zadd(keys.inQueue(queue, "delayed"), (Date.now() + inMs) * 0x1000, id);
    }
    const page = await open({ hash: "#/overview" });
    const notice = page.getByRole("region", { name: "Needs attention" }).getByRole("listitem");
    await notice
      .getByText(
        /2 delayed calls wait for their next attempt, the oldest for 1 h\b.* The last one is due at (?:[A-Z][a-z]+ \d+, )?\d\d:\d\d:\d\d\./,
      )
      .waitFor();
    expect(await notice.filter({ hasText: "Check the jobs" }).count()).toBe(0);
    const score = await redis.client.zscore(keys.inQueue(queue, "delayed"), "c_2");
    expect(await notice.locator("time").getAttribute("datetime")).toBe(
      new Date(Math.floor(Number(score) / 0x1000)).toISOString(),
    );
  });

  test("an unreachable runner is reported with the reason and the time, until it answers", async () => {
    const its = { name: "default", url: "http://127.0.0.1:8645" };
    const { tellRunners } = await reports.start();
    await tellRunners([{ ...its, state: "away", since: Date.now(), reason: "connect ECONNREFUSED" }]);
    const page = await open({ hash: "#/overview" });
    const notice = page.getByText(/Runner “default” is unreachable since \d\d:\d\d:\d\d/);
    await notice.waitFor();
    const row = page.getByRole("row").filter({ hasText: its.url });
    await row.getByText("unreachable").waitFor();
    await row.getByText("connect ECONNREFUSED").waitFor();
    await tellRunners([{ ...its, state: "answers", answeredAt: Date.now() }]);
    await row.getByText("answers", { exact: true }).waitFor();
    await notice.waitFor({ state: "detached" });
    await tellRunners([
      { ...its, state: "failing", since: Date.now(), orEarlier: true, reason: "502 Bad Gateway" },
    ]);
    await page.getByText(/Runner “default” answers with 5xx since \d\d:\d\d:\d\d or earlier/).waitFor();
    await row.getByText("answers with 5xx").waitFor();
    await row.getByText("502 Bad Gateway").waitFor();
  });

  test("current numbers arrive over one stream without further requests, and nothing on the page moves", async () => {
    const { log, flush } = await reports.start();
    for (let i = 0; i < 40; i++) {
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      log.info("call.injected", { ...INJECTED, endToEndMs: 40 });
    }
    await flush();
    const page = await open({ hash: "#/overview" });
    await page.getByRole("row").filter({ hasText: "7/1" }).first().waitFor();
    await page.getByRole("img", { name: /^Calls per second/ }).waitFor();
    await calls.fail([{}]);
    await page.getByText("1 failed call to replay or discard").waitFor();
    const layout = await watchLayout(page);
    const paths: string[] = [];
    page.on("request", (request) => paths.push(new URL(request.url()).pathname));
    for (const failed of [2, 3, 4]) {
      await calls.fail([{}]);
      await page.getByText(`${failed} failed calls to replay or discard`).waitFor();
    }
    expect(paths.filter((path) => path.startsWith("/api/"))).toEqual([]);
    expect(await layout()).toMatchObject({ shifted: 0, moved: [] });
  });

  test.each([
    ["at a desk", SIZES.desk],
    ["on a phone", SIZES.phone],
  ])(
    "a chart and its numbers keep their place %s, even if the numbers get long",
    async (_where, viewport) => {
      let at = Date.now() - 120_000;
      const { log, flush } = await reports.start({ clock: () => at });
      log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      log.info("call.injected", { ...INJECTED, endToEndMs: 4 });
      await flush();
      const page = await open({ hash: "#/overview", viewport });
      const chart = page.getByRole("img", { name: /^Calls per second/ });
      await chart
        .locator("tr")
        .filter({ hasText: /refused(?:0|–)/ })
        .waitFor();
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

  test("a day's chart ends with the last complete interval, so that calls do not seem to stop, and the tile has the last minute", async () => {
    const stepBegan = Date.now() - (Date.now() % 300_000);
    const at = stepBegan - 1;
    const { log, flush } = await reports.start({ clock: () => at });
    const refused = { path: "/hooks/a", code: "request.too_large", reason: "" };
    log.warn("webhook.refused", { ...refused, times: 1800 });
    await flush();
    const { address } = await start({ clock: () => stepBegan + 60_000 });
    const page = await open({ hash: "#/overview?span=24h", at: address });
    const tile = page.locator(".tile").filter({ hasText: "Refused" });
    await tile.getByText("30.0").waitFor();
    await tile.getByText("last minute").waitFor();
    const legend = page.getByRole("img", { name: /^Calls per second/ }).locator("tr");
    await legend.filter({ hasText: "refused6.0" }).waitFor();
  });

  test("with a job chosen, each tile shows that job or says that it does not, and links to exactly these calls", async () => {
    const [id = ""] = await calls.fail([{ jobId: 1 }, { jobId: 1 }, { jobId: 2 }]);
    const of = { id, queue: (await calls.find(id)).queue };
    await multiplyFailed(redis.partition, { of, copies: 3, queues: ["callback/7/2/receiver.example.com"] });
    const { log, flush } = await reports.start();
    log.info("call.injected", { ...INJECTED, jobId: 2, endToEndMs: 40 });
    await flush();
    const old = Date.now() - 600_000;
    for (let i = 0; i < 5; i++) await createEnqueue(redis.partition)(aCall({ job_id: 1, accepted_at: old }));
    const page = await open({ hash: "#/overview" });
    const tile = (name: string) =>
      page.locator(".tile").filter({ has: page.getByText(name, { exact: true }) });
    const says = async (name: string, value: string, note: RegExp) => {
      await tile(name).locator(".tile-value").getByText(value, { exact: true }).waitFor();
      expect(await tile(name).locator(".tile-note").textContent()).toMatch(note);
    };
    await says("Waiting or delayed", "5", /^0 in flight$/);
    await says("Failed now", "6", /^need attention$/);
    await page.evaluate("location.hash = '#/overview?job=7%2F2'");
    await says("Waiting or delayed", "0", /^0 in flight$/);
    await says("Oldest waiting", "–", /^$/);
    await says("Failed now", "4", /^need attention$/);
    await says("Refused", "–", /^not counted per job$/);
    await says("Producers", "0", /^for all jobs$/);
    await page.getByRole("heading", { name: "Needs attention, all jobs" }).waitFor();
    await page.getByRole("img", { name: "Calls per second: accepted, injected, failed" }).waitFor();
    await page.getByRole("button", { name: "callback" }).click();
    await says("Failed now", "3", /^need attention$/);
    await tile("Failed now").getByRole("link").click();
    await page.getByRole("heading", { name: "3 calls", exact: true }).waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "all", exact: true }).click();
    await says("Failed now", "4", /^need attention$/);
    await tile("Failed now").getByRole("link").click();
    await page.getByRole("heading", { name: "4 calls", exact: true }).waitFor();
  });

  test("if a job's queues cannot be read, numbers of other jobs are not shown in their place", async () => {
    await calls.fail([{ jobId: 1 }]);
    const page = await open({ hash: "#/overview" });
    const failed = page.locator(".tile").filter({ has: page.getByText("Failed now", { exact: true }) });
    await failed.getByText("1", { exact: true }).waitFor();
    const answer = { status: 503, json: { code: "x", detail: "Redis is away" } };
    await page.route("**/api/v1/queues*", (route) => route.fulfill(answer));
    await page.evaluate("location.hash = '#/overview?job=7%2F2'");
    await page.getByRole("alert").getByText("Redis is away").waitFor();
    expect(await failed.locator(".tile-value").textContent()).toBe("");
    await page.unroute("**/api/v1/queues*");
    await page.getByRole("button", { name: "Try again" }).click();
    await failed.getByText("0", { exact: true }).waitFor();
  });

  test.each(["1h", "24h"] as const)(
    "each tile has the last minute (%s), with the same numbers as the chart of minutes",
    async (span) => {
      const ends = Date.now() - (Date.now() % 300_000);
      const now = ends + 10_000;
      let at = ends - 60_000;
      const { log, flush } = await reports.start({ clock: () => at });
      log.info("call.injected", { ...INJECTED, endToEndMs: 10_000 });
      await flush();
      at = ends - 10_000;
      for (let i = 0; i < 1800; i++) log.info("call.injected", { ...INJECTED, endToEndMs: 250 });
      for (let i = 0; i < 60; i++)
        log.info("webhook.accepted", { path: "/hooks/a", jobId: 1, replayed: false });
      await flush();
      const { address } = await start({ clock: () => now });
      const page = await open({ hash: `#/overview?span=${span}`, at: address });
      const tiles = page.locator(".tile");
      const saysAs = async (tile: string, chart: RegExp, line: string) => {
        const value = tiles.filter({ hasText: tile }).locator(".tile-value");
        const legend = page.getByRole("img", { name: chart }).locator("tr").filter({ hasText: line });
        await legend.locator(".u-value").getByText(/[1-9]/).waitFor();
        await value.getByText(/[1-9]/).waitFor();
        const [number = ""] = (await value.textContent())?.split("/s") ?? [];
        const [ofLegend] = (await legend.locator(".u-value").textContent())?.split("/s") ?? [];
        if (span === "1h") expect(ofLegend).toBe(number);
        return number;
      };
      const p99 = await saysAs("Time to inject", /^Latency percentiles/, "p99");
      expect(Number(/^(\d+) ms$/.exec(p99)?.[1])).toBeLessThan(370);
      expect(await saysAs("Injected", /^Calls per second/, "injected")).toBe("30.0");
      expect(await saysAs("Accepted", /^Calls per second/, "accepted")).toBe("1.0");
      const row = page
        .getByRole("region", { name: /^By job/ })
        .getByRole("row")
        .filter({ hasText: "7/1" });
      expect(await row.getByRole("cell").last().textContent()).toBe(p99);
    },
  );

  test("if no stream can be opened, the page polls, and shows the same", async () => {
    const page = await open({ hash: "#/overview" });
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    await calls.fail([{}]);
    await page.getByText("1 failed call to replay or discard").waitFor();
  });

  test("if the service is unavailable the page says so, keeps its data, and continues by itself later", async () => {
    await calls.fail([{}]);
    const service = await start();
    const page = await open({ hash: "#/overview", at: service.address });
    await page.getByText("1 failed call to replay or discard").waitFor();
    await service.close();
    await page
      .getByText(/^Not updated since \d\d:\d\d:\d\d$/)
      .first()
      .waitFor();
    await page.getByText(/^As of /).waitFor();
    expect(await page.getByText("1 failed call to replay or discard").isVisible()).toBe(true);
    await calls.fail([{}]);
    await start({ address: service.address });
    await page.getByText("2 failed calls to replay or discard").waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("if only the flow cannot be read, the page says why", async () => {
    const page = await open({ hash: "#/calls" });
    await page.route("**/api/v1/live*", (route) => route.abort());
    await page.route("**/api/v1/flow*", (route) =>
      route.fulfill({ status: 503, json: { code: "x", detail: "Too much is asked for" } }),
    );
    await page.getByRole("navigation").getByRole("link", { name: "Overview" }).click();
    await page.getByRole("alert").getByText("Too much is asked for").waitFor();
  });

  test("a session that ends elsewhere also ends on this page", async () => {
    const service = await start();
    const page = await open({ hash: "#/overview", at: service.address });
    await page.getByText("Live", { exact: true }).waitFor();
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
  });
});
