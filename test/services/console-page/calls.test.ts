import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { SIZES, shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { needs } from "../../support/needs.ts";

const found = (page: Page) => page.getByRole("list", { name: "Calls, newest first" }).getByRole("listitem");
const REFUSAL = "422 currency EURO is not one of EUR, USD";

describe("the page of calls", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  async function showBody(body: Buffer): Promise<Page> {
    const [id] = await calls.fail([{ body }]);
    const page = await open({ hash: `#/calls/${id}` });
    await page.getByRole("button", { name: /^Show body/ }).click();
    return page;
  }

  test("a failed call is found by the sender's id, shows why it failed, is replayed, and then shows as delivered", async () => {
    const metadata = { "X-WEBHOOK-DELIVERY-ID": "evt_1PqX" };
    const [id] = await calls.fail([{ path: "/hooks/stripe", metadata }, {}], "runner.refused", REFUSAL);
    const page = await open();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("/");
    await page.getByRole("searchbox").fill("EVT_1P");
    await page.keyboard.press("Enter");
    await found(page).first().getByText(REFUSAL).waitFor();
    await expect.poll(() => found(page).count()).toBe(1);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByText(`Runner refused the call: ${REFUSAL}`).first().waitFor();
    await page.getByText("Attempt 1 failed").waitFor();
    expect(await page.locator(".timeline .step-title").first().textContent()).toBe("Created");
    await shoot(page, "call-failed");
    await page.getByRole("button", { name: "Replay…" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("the runner takes EURO now");
    await page.getByRole("button", { name: "Replay 1 call" }).click();
    await page.getByRole("dialog").getByText("1 call replayed").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("waiting", { exact: true }).first().waitFor();
    await calls.startProducer();
    await page.getByText("Injected into the runner").waitFor();
    await page.getByText("injected", { exact: true }).first().waitFor();
    expect(await page.getByRole("button", { name: "Replay…" }).count()).toBe(0);
    expect(calls.offered(id ?? "")).toBe(2);
  });

  onlyInLongRun(() => {
    test("the list counts new calls of its search, and in live mode lists them until the user pauses it", async () => {
      await calls.add({ path: "/hooks/stripe" });
      const page = await open({ hash: "#/calls?q=/hooks/stripe" });
      await expect.poll(() => found(page).count()).toBe(1);
      await calls.add({ path: "/hooks/other" });
      await calls.add({ path: "/hooks/stripe" });
      await page.getByRole("button", { name: "1 new" }).click();
      await expect.poll(() => found(page).count()).toBe(2);
      await page.getByRole("button", { name: "Start live" }).click();
      await calls.add({ path: "/hooks/stripe" });
      await expect.poll(() => found(page).count(), { timeout: 15_000 }).toBe(3);
      await page.getByRole("button", { name: "Stop live" }).click();
      await calls.add({ path: "/hooks/stripe" });
      await page.getByRole("button", { name: "1 new" }).waitFor();
      expect(await found(page).count()).toBe(3);
    });

    test("a row also shows the call's endpoint, job and state in a window as narrow as a phone", async () => {
      await calls.fail([{ jobId: 2, path: "/hooks/stripe" }], "runner.refused", REFUSAL);
      const page = await open({ hash: "#/calls?q=/hooks/stripe", viewport: SIZES.phone });
      const row = found(page).first();
      await row.getByText("/hooks/stripe").waitFor();
      for (const text of ["7/2", "failed", REFUSAL]) expect(await row.getByText(text).isVisible()).toBe(true);
    });

    test("a search finds calls by job, endpoint and error, and a complete call id opens the call", async () => {
      const [id] = await calls.fail([
        { jobId: 1, path: "/hooks/a" },
        { jobId: 2, path: "/hooks/b" },
      ]);
      const page = await open({ hash: "#/calls" });
      const search = async (text: string) => {
        await page.getByRole("searchbox").fill(text);
        await page.keyboard.press("Enter");
      };
      await found(page).nth(1).waitFor();
      await search("7/2");
      await found(page).getByText("/hooks/b").waitFor();
      await expect.poll(() => found(page).count()).toBe(1);
      await search("/hooks/a");
      await found(page)
        .getByRole("link")
        .and(page.locator(`[title="${id}"]`))
        .waitFor();
      await search(`0x${"a".repeat(40)}`);
      await page.getByText("No calls found").waitFor();
      await search(String(id));
      await page.getByRole("heading", { name: "Call", exact: true }).waitFor();
    });

    test("a click on a count narrows the search and a second click widens it, and an invalid search gets an explanation", async () => {
      const metadata = { "X-WEBHOOK-EVENT": "invoice.paid" };
      await calls.fail([{ path: "/hooks/a", metadata }, { path: "/hooks/a" }, { path: "/hooks/b" }]);
      const page = await open({ hash: "#/calls" });
      const facets = page.getByRole("complementary", { name: "Narrow the search" });
      await facets.getByRole("button", { name: "/hooks/a 2" }).click();
      await expect.poll(() => found(page).count()).toBe(2);
      await facets.getByRole("button", { name: "invoice.paid 1" }).click();
      await expect.poll(() => found(page).count()).toBe(1);
      await facets.getByRole("group", { name: "Error" }).getByText("1").waitFor();
      await shoot(page, "calls-facets");
      expect(await violationsOf(page)).toEqual([]);
      await facets.getByRole("button", { name: "invoice.paid 1", pressed: true }).click();
      await facets.getByRole("button", { name: "/hooks/a 2", pressed: true }).click();
      await expect.poll(() => found(page).count()).toBe(3);
      await page.getByRole("searchbox").fill("invoice*");
      await page.keyboard.press("Enter");
      await page.getByText("The search must be plain text without wildcards").waitFor();
      expect(await found(page).count()).toBe(3);
    });

    test("new calls are also counted for searches by text, event type and error, and a refresh counts the facets again", async () => {
      const metadata = { "X-WEBHOOK-EVENT": "invoice.paid" };
      const failed = { path: "/hooks/stripe", metadata };
      await calls.fail([failed], "runner.refused");
      const page = await open({ hash: "#/calls?q=invoice&event=invoice.paid&code=runner.refused" });
      const facets = page.getByRole("complementary", { name: "Narrow the search" });
      await facets.getByRole("button", { name: "/hooks/stripe 1" }).waitFor();
      await calls.fail([{ path: "/hooks/stripe" }], "runner.refused");
      await calls.fail([failed], "runner.failed");
      await calls.fail([failed], "runner.refused");
      await page.getByRole("button", { name: "1 new" }).click();
      await expect.poll(() => found(page).count()).toBe(2);
      await facets.getByRole("button", { name: "/hooks/stripe 2" }).waitFor();
      await calls.fail([failed], "runner.refused");
      await page.getByRole("button", { name: "Refresh" }).click();
      await facets.getByRole("button", { name: "/hooks/stripe 3" }).waitFor();
      await page.getByRole("button", { name: "Live" }).click();
      await calls.fail([failed], "runner.refused");
      await expect.poll(() => found(page).count(), { timeout: 15_000 }).toBe(4);
      await facets.getByRole("button", { name: "/hooks/stripe 4" }).waitFor();
    });

    test("a new call is counted even if it belongs below the newest call of the list", async () => {
      const [late] = await calls.fail([{}]);
      await calls.add();
      const page = await open();
      await page.route(/\/api\/v1\/calls\?.*limit=100/, async (route) => {
        const response = await route.fetch();
        const body = (await response.json()) as { calls: { id: string }[] };
        await route.fulfill({
          response,
          json: { ...body, calls: body.calls.filter(({ id }) => id !== late) },
        });
      });
      await page.evaluate("location.hash = '#/calls'");
      await page.getByRole("button", { name: "1 new" }).waitFor();
      expect(await found(page).count()).toBe(1);
      await page.unrouteAll();
      await page.getByRole("button", { name: "1 new" }).click();
      await expect.poll(() => found(page).count()).toBe(2);
    });

    test("a live list that is refused is requested again only after a pause", async () => {
      await calls.add();
      const page = await open({ hash: "#/calls" });
      await expect.poll(() => found(page).count()).toBe(1);
      const refusedAt: number[] = [];
      await page.route(/\/api\/v1\/calls\?.*limit=100/, (route) => {
        refusedAt.push(Date.now());
        return route.fulfill({ status: 503, json: { code: "overloaded", title: "Busy" } });
      });
      await page.getByRole("button", { name: "Live" }).click();
      await calls.add();
      await page.getByText("Not updated since").waitFor();
      await expect.poll(() => refusedAt.length).toBeGreaterThan(2);
      const pauses = refusedAt.slice(1).map((at, i) => at - (refusedAt[i] ?? 0));
      expect(Math.min(...pauses)).toBeGreaterThan(400);
      await page.unrouteAll();
      await expect.poll(() => found(page).count(), { timeout: 15_000 }).toBe(2);
    });

    test("an unknown call is reported as unknown, with advice", async () => {
      const page = await open({ hash: `#/calls/c_${"0".repeat(32)}` });
      await page.getByText("Call not found").waitFor();
      expect(await page.locator(".live").count()).toBe(0);
      await page.getByRole("link", { name: "Search for another call" }).click();
      await page.getByRole("searchbox").waitFor();
    });

    test("a body is shown as foldable JSON, as text and in hex; a body that is not text is shown only in hex", async () => {
      const page = await showBody(Buffer.from(JSON.stringify({ id: 7, lines: [{ sku: "a" }], note: "ü" })));
      await page.getByText('"sku"').waitFor();
      await page.getByText('"lines"').click();
      await page.getByText('"sku"').waitFor({ state: "hidden" });
      await page.getByRole("button", { name: "Text" }).click();
      await page.getByText('{"id":7,"lines":[{"sku":"a"}],"note":"ü"}').waitFor();
      await page.getByRole("button", { name: "Hex" }).click();
      await page.getByText(/^000000 {2}7b 22 69 64/).waitFor();
      const binary = await showBody(Buffer.from([0, 1, 2, 0xff, 0x41]));
      await binary.getByText(/00 01 02 ff 41\s+\.{4}A/).waitFor();
      expect(await binary.getByRole("button", { name: "Text" }).count()).toBe(0);
    });

    test("a body is copied as it is shown, and downloaded byte for byte", async () => {
      const page = await showBody(Buffer.from('{"id":7}'));
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const copied = () => page.evaluate("navigator.clipboard.readText()");
      await page.getByRole("button", { name: "Copy the body" }).click();
      await expect.poll(copied).toBe('{\n  "id": 7\n}');
      await page.getByRole("button", { name: "Text" }).click();
      await page.getByRole("button", { name: "Copy the body" }).click();
      await expect.poll(copied).toBe('{"id":7}');
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Download" }).click(),
      ]);
      expect(download.suggestedFilename()).toMatch(/^c_[0-9a-f]{32}/);
      expect(readFileSync(await download.path(), "utf8")).toBe('{"id":7}');
    });

    test("replaying a kept delivered webhook queues a new call and opens its page", async () => {
      const keepDelivered = { secs: 3600, bytes_max: 100_000 };
      const id = await calls.add({ keepDelivered, body: Buffer.from('{"order":7}') });
      await calls.startProducer();
      const page = await open({ hash: `#/calls/${id}` });
      await page.getByRole("button", { name: "Replay as a new call…" }).click();
      await page.getByRole("textbox", { name: "Reason" }).fill("the runner lost it");
      await page.getByRole("button", { name: "Replay", exact: true }).click();
      await page.getByRole("link", { name: id }).waitFor();
      const [again] = calls.injected.filter((each) => each !== id);
      expect(page.url()).toContain(`#/calls/${again}`);
      await page.getByRole("button", { name: /^Show body/ }).click();
      await page.getByText('"order"').waitFor();
      await shoot(page, "call-replayed-as-new", { whole: true });
    });

    test("only the beginning of a body of a megabyte is shown, until the user asks for all of it", async () => {
      const page = await showBody(Buffer.from(`${"lorem ipsum ".repeat(90_000)}THE END`));
      await page.getByText(/^lorem ipsum/).waitFor();
      expect(await page.getByText("THE END").count()).toBe(0);
      await page.getByRole("button", { name: "Show all 1.1 MB" }).click();
      await page.getByText("THE END").waitFor();
    });

    test("forgetting a call needs a reason, and its page then shows that the data is deleted", async () => {
      const [id] = await calls.fail([{ metadata: { "X-NAME": "Erika Mustermann" } }]);
      const page = await open({ hash: `#/calls/${id}` });
      await page.getByText("Erika Mustermann").waitFor();
      await page.getByRole("button", { name: "Forget…" }).click();
      await page.getByPlaceholder("The sender asked for it, ticket 815").waitFor();
      await page.getByRole("textbox", { name: "Reason" }).fill("asked for by its sender");
      await page.getByRole("button", { name: "Forget call" }).click();
      await page.getByText("Forgotten by an operator").waitFor();
      await page.getByText("Erika Mustermann").waitFor({ state: "detached" });
      expect(await page.getByRole("button", { name: "Forget…" }).count()).toBe(0);
    });

    test("a viewer sees everything, but no button that changes something", async () => {
      const [id] = await calls.fail([{}], "runner.refused", REFUSAL);
      const page = await open({ hash: `#/calls/${id}`, as: "viewer" });
      await page.getByText(`Runner refused the call: ${REFUSAL}`).first().waitFor();
      expect(await page.getByRole("button", { name: /Replay|Discard|Forget/ }).count()).toBe(0);
    });

    test("markup and scripts of strangers are shown as text everywhere", async () => {
      const EVIL = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>';
      const [id] = await calls.fail(
        [
          {
            ...{ path: `/hooks/${EVIL}`, metadata: { [`X-${EVIL}`]: EVIL, "X-WEBHOOK-DELIVERY-ID": EVIL } },
            body: Buffer.from(JSON.stringify({ [EVIL]: EVIL, list: [EVIL] })),
          },
        ],
        "runner.refused",
        `HTTP 422: ${EVIL}`,
      );
      const page = await open({ hash: `#/calls/${id}` });
      await page.getByRole("button", { name: /^Show body/ }).click();
      await page.locator(".json").getByText("onerror").first().waitFor();
      await page.getByRole("button", { name: "Text" }).click();
      expect(await page.content()).not.toContain("<img");
      const evil = page.getByText(EVIL);
      expect(await evil.count()).toBeGreaterThan(5);
      await page.goto(new URL("#/failed", page.url()).href);
      await page.getByRole("heading", { name: "1 call", exact: true }).waitFor();
      await page.goto(new URL(`#/calls?q=${encodeURIComponent(EVIL)}`, page.url()).href);
      await found(page).first().waitFor();
      expect(await page.locator("main img, main script").count()).toBe(0);
    });
  });
});
