import { describe, expect, test } from "vitest";
import { SIZES } from "../../fixtures/chromium.ts";
import { useOperatorPage } from "../../fixtures/console-page.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { violationsOf } from "../../support/axe.ts";
import { needs } from "../../support/needs.ts";

describe("accessibility by axe-core", needs("chromium"), () => {
  const redis = useRedis();
  const calls = useFailedCalls({ redis });
  const { open } = useOperatorPage({ redis });

  for (const [look, options] of [
    ["in light colours", { colorScheme: "light" }],
    ["in dark colours", { colorScheme: "dark" }],
    ["at a phone's width", { viewport: SIZES.phone }],
  ] as const) {
    test(`axe-core finds no violation on the sign-in page and the page of failed calls ${look}`, async () => {
      await calls.fail([{ jobId: 1 }, { jobId: 2 }]);
      const login = await open({ ...options, as: "nobody" });
      await login.getByLabel("Token").waitFor();
      expect(await violationsOf(login)).toEqual([]);
      const page = await open({ ...options, hash: "#/failed" });
      await page.getByRole("heading", { name: "2 calls" }).waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      expect(await violationsOf(page)).toEqual([]);
    });
  }
});
