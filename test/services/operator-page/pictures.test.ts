import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { SIZES, shoot } from "../../fixtures/chromium.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { livelyConfig, useLively } from "../../fixtures/lively.ts";
import { useOperatorPage } from "../../fixtures/operator-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { findChromium } from "../../support/chromium.ts";

const chromium = findChromium();

/** What is shown, where, and what is there once it is whole. */
const PAGES: readonly { name: string; hash: string; whole: (page: Page) => Promise<unknown> }[] = [
  {
    name: "flow",
    hash: "#/flow",
    whole: async (page) => {
      await page.getByRole("img", { name: /^Calls accepted/ }).waitFor();
      await page.getByText("edge-2").waitFor();
    },
  },
  {
    name: "flow-day",
    hash: "#/flow?span=24h",
    whole: (page) => page.getByRole("img", { name: /^Calls accepted/ }).waitFor(),
  },
  {
    name: "failed",
    hash: "#/failed",
    whole: (page) => page.getByRole("heading", { name: "234 calls" }).waitFor(),
  },
  { name: "endpoints", hash: "#/endpoints", whole: (page) => page.getByText("/hooks/orders").waitFor() },
  { name: "jobs", hash: "#/endpoints?view=jobs", whole: (page) => page.getByText("by alice").waitFor() },
  { name: "prices", hash: "#/endpoints?view=prices", whole: (page) => page.getByText("3.2 USDC").waitFor() },
  {
    name: "revenue",
    hash: "#/payments?view=revenue",
    whole: (page) => page.getByRole("row").nth(2).waitFor(),
  },
];

/** By how much the page is wider than its window. */
const WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

const LOOKS = [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["phone", { viewport: SIZES.phone, colorScheme: "light", hasTouch: true }],
  ["phone-dark", { viewport: SIZES.phone, colorScheme: "dark", hasTouch: true }],
] as const;

/** Each page, left as a picture for people, and looked at by axe-core. */
describe.skipIf(chromium === undefined)("in each look", () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis, fresh: "file" });
  const lively = useLively({ redis, calls });
  const { open, start } = useOperatorPage(chromium, { redis, operator: { configDir: livelyConfig() } });
  let at: string;

  beforeAll(async () => {
    await redis.client.flushdb();
    await lively.begin();
    at = (await start()).address;
  });

  test.each(LOOKS)(
    "%s: every page is whole, no wider than the window, and accessible",
    async (look, options) => {
      const page = await open({ ...options, at });
      const problems: unknown[] = [];
      for (const { name, hash, whole } of PAGES) {
        await page.goto(`http://${at}/${hash}`);
        await whole(page);
        await shoot(page, `${name}-${look}`, { whole: name !== "failed" });
        const wider = await page.evaluate(WIDER);
        if (Number(wider) > 0) problems.push(`${name} is ${wider} pixels too wide`);
        problems.push(...(await violationsOf(page)).map((violation) => `${name}: ${violation}`));
      }
      expect(problems).toEqual([]);
    },
  );
});
