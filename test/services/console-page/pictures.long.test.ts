import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { SIZES, shoot } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { livelyConfig, useLively } from "../../fixtures/lively.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { delayCalls } from "../../support/delay-calls.ts";
import { needs } from "../../support/needs.ts";

type Shown = { name: string; hash: string; whole: (page: Page) => Promise<unknown> };

/** The pages, their windows, and a selector that is present once the page is complete. */
const pagesOf = ({
  failed,
  inReview,
  delayed,
}: Record<"failed" | "inReview" | "delayed", string>): readonly Shown[] => [
  {
    name: "flow",
    hash: "#/overview",
    whole: async (page) => {
      await page.getByRole("img", { name: /^Calls per second/ }).waitFor();
      await page.getByText("edge-2").waitFor();
    },
  },
  {
    name: "flow-job",
    hash: "#/overview?job=7%2F1",
    whole: async (page) => {
      await page.getByRole("img", { name: /^Calls per second/ }).waitFor();
      await page.getByText(/for all jobs$/).waitFor();
    },
  },
  {
    name: "flow-day",
    hash: "#/overview?span=24h",
    whole: (page) => page.getByRole("img", { name: /^Calls per second/ }).waitFor(),
  },
  {
    name: "failed",
    hash: "#/failed",
    whole: (page) => page.getByRole("heading", { name: "234 calls" }).waitFor(),
  },
  {
    name: "calls",
    hash: "#/calls",
    whole: async (page) => {
      await page.getByRole("list", { name: "Calls, newest first" }).getByRole("link").first().waitFor();
      await page.getByRole("complementary").waitFor();
    },
  },
  {
    name: "call",
    hash: `#/calls/${failed}`,
    whole: async (page) => {
      await page.getByRole("button", { name: /^Show body/ }).click();
      await page.getByText('"invoice.paid"').waitFor();
    },
  },
  {
    name: "payments",
    hash: "#/payments",
    whole: async (page) => {
      await page.getByRole("link", { name: "Decide" }).waitFor();
      await page
        .getByRole("list", { name: "Payments, newest first" })
        .getByText("3.2 USDC")
        .first()
        .waitFor();
    },
  },
  {
    name: "payment",
    hash: `#/payments/${inReview}`,
    whole: (page) => page.getByText(/ was asked once to settle it, at /).waitFor(),
  },
  {
    name: "disputed",
    hash: "#/payments?state=disputed",
    whole: (page) =>
      page
        .getByRole("checkbox", { name: /^Select c_/ })
        .first()
        .check(),
  },
  {
    // This is the same page as above, so the payment is still selected.
    name: "acknowledge",
    hash: "#/payments?state=disputed",
    whole: (page) => page.getByRole("button", { name: "Acknowledge 1…" }).click(),
  },
  { name: "endpoints", hash: "#/endpoints", whole: (page) => page.getByText("/hooks/orders").waitFor() },
  {
    name: "endpoint",
    hash: "#/endpoints/%2Fhooks%2Fgithub",
    whole: async (page) => {
      await page.getByRole("img", { name: /^Requests/ }).waitFor();
      await page.getByRole("region", { name: "Latest calls" }).getByText("failed").first().waitFor();
    },
  },
  { name: "jobs", hash: "#/jobs", whole: (page) => page.getByText("by alice").waitFor() },
  {
    name: "job",
    hash: "#/jobs/7/3",
    whole: async (page) => {
      await page.getByRole("img", { name: /^Calls per second/ }).waitFor();
      await page.getByRole("region", { name: "Latest calls" }).getByText("waiting").first().waitFor();
    },
  },
  {
    name: "job-delayed",
    hash: "#/jobs/7/1",
    whole: (page) => page.getByRole("button", { name: "Run delayed calls…" }).waitFor(),
  },
  {
    name: "run-delayed",
    hash: "#/jobs/7/1",
    whole: (page) => page.getByRole("button", { name: "Run delayed calls…" }).click(),
  },
  {
    name: "call-delayed",
    hash: `#/calls/${delayed}`,
    whole: (page) => page.getByRole("button", { name: "Run now…" }).waitFor(),
  },
  { name: "prices", hash: "#/payments?view=prices", whole: (page) => page.getByText("3.2 USDC").waitFor() },
  {
    name: "prices-day",
    hash: "#/payments?view=prices&span=24h",
    whole: (page) => page.getByRole("img", { name: /in the last 24 hours/ }).waitFor(),
  },
  {
    name: "rejected",
    hash: "#/refused",
    whole: (page) =>
      page
        .getByText(/^No refused requests|^\d+ refused requests?$/)
        .first()
        .waitFor(),
  },
  {
    name: "audit-trail",
    hash: "#/audit",
    whole: (page) => page.getByRole("region").first().waitFor(),
  },
  {
    name: "refunds",
    hash: "#/payments?view=refunds",
    whole: (page) => page.getByText("No refunds", { exact: true }).waitFor(),
  },
  {
    name: "audit",
    hash: "#/payments?view=audit",
    whole: (page) => page.getByRole("region").first().waitFor(),
  },
  {
    name: "revenue",
    hash: "#/payments?view=revenue",
    whole: (page) => page.getByRole("row").nth(2).waitFor(),
  },
];

/** Pages whose lists have any length. */
const LONG = ["failed", "calls"];

/** Number of pixels by which the page is wider than its window. */
const WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/** Elements that are wider than their space: a table with hidden columns, or a value that overlaps its neighbour. */
const CUT_OFF = `[...document.querySelectorAll(".table-box, .tile, .card-head, td:not(.cut), [class*='-row'], [class*='-row'] > :not(.cut, .why)")]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map((box) => box.className + " by " + (box.scrollWidth - box.clientWidth) + ": " + box.textContent.slice(0, 80))`;

/** Unused width of the window on the right. */
const UNUSED = `innerWidth - Math.max(...[...document.querySelectorAll("main .card, main .now")].map((box) => box.getBoundingClientRect().right))`;
const UNUSED_MAX = 60;

const LOOKS = [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["narrow", { viewport: SIZES.narrow, colorScheme: "light" }],
  ["narrow-dark", { viewport: SIZES.narrow, colorScheme: "dark" }],
  ["wide", { viewport: SIZES.wide, colorScheme: "light" }],
  ["wide-dark", { viewport: SIZES.wide, colorScheme: "dark" }],
  ["phone", { viewport: SIZES.phone, colorScheme: "light", hasTouch: true }],
  ["phone-dark", { viewport: SIZES.phone, colorScheme: "dark", hasTouch: true }],
] as const;

/** Saves a picture of each page for people, and checks it with axe-core. */
describe("the pages in each look", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis, fresh: "file" });
  const lively = useLively({ redis, calls });
  const { open, start } = useOperatorPage({ redis, operator: { configDir: livelyConfig() } });
  let at: string;
  let pages: readonly Shown[];

  beforeAll(async () => {
    await redis.client.flushdb();
    const begun = await lively.begin();
    const [delayed = ""] = await delayCalls(redis.partition);
    pages = pagesOf({ ...begun, delayed });
    at = (await start()).address;
  });

  test("README's picture, docs/operator.png, shows the current overview", async () => {
    await lively.report();
    const page = await open({ at, colorScheme: "light" });
    await pages[0]?.whole(page);
    await shoot(page, "readme");
    const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
    expect(readme).toContain("](docs/operator.png)");
    const png = readFileSync(new URL("../../../docs/operator.png", import.meta.url));
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([SIZES.desk.width, SIZES.desk.height]);
  });

  test.each(LOOKS)(
    "%s: every page is complete, fills the window's width, cuts off no column, and is accessible",
    async (look, options) => {
      await lively.report();
      const page = await open({ ...options, at });
      const problems: unknown[] = [];
      for (const { name, hash, whole } of pages) {
        await page.goto(`http://${at}/${hash}`);
        await whole(page);
        await shoot(page, `${name}-${look}`, { whole: !LONG.includes(name) });
        const wider = await page.evaluate(WIDER);
        if (Number(wider) > 0) problems.push(`${name} is ${wider} pixels too wide`);
        const cutOff = (await page.evaluate(CUT_OFF)) as string[];
        problems.push(...cutOff.map((what) => `${name} cuts off ${what}`));
        const unused = Number(await page.evaluate(UNUSED));
        if (unused > UNUSED_MAX) problems.push(`${name} leaves ${unused} pixels empty`);
        problems.push(...(await violationsOf(page)).map((violation) => `${name}: ${violation}`));
      }
      expect(problems).toEqual([]);
    },
  );
});
