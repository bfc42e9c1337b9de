import { describe, expect, test } from "vitest";
import { shoot } from "../../fixtures/chromium.ts";
import { signIn, useOperatorPage } from "../../fixtures/console-page.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { needs } from "../../support/needs.ts";

describe("signing in to the operator's page", needs("chromium"), () => {
  const redis = useRedis();
  const proxy = useRedisProxy(redis);
  const { open, start } = useOperatorPage({ redis });

  test("a valid token signs in, and the page in the address opens", async () => {
    const page = await open({ hash: "#/failed?since=24h", as: "nobody" });
    await shoot(page, "log-in");
    await signIn(page);
    await page.getByRole("heading", { name: "Failed calls" }).waitFor();
    expect(await page.getByRole("combobox", { name: "Failed" }).inputValue()).toBe("24h");
    expect(await page.getByText("otto").isVisible()).toBe(true);
  });

  test("a wrong token gets an explanation, and another one can be typed at once", async () => {
    const page = await open({ as: "nobody" });
    await signIn(page, "this-is-no-token-of-ours");
    await page.getByRole("alert").getByText("This token is not valid.").waitFor();
    expect(await page.evaluate("document.activeElement.id")).toBe("token");
    await signIn(page);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
  });

  test("a user who tries too many tokens must wait", async () => {
    const page = await open({ as: "nobody" });
    const refusal = page.getByRole("alert").getByText("too many wrong tokens");
    for (let i = 0; i < 12 && !(await refusal.isVisible()); i++) {
      const answered = page.waitForResponse((response) => response.request().method() === "POST");
      await signIn(page, `guess-number-${i}-of-many`);
      await answered;
      await page.getByRole("button", { name: "Log in", disabled: false }).waitFor();
    }
    await refusal.waitFor();
  });

  test("after signing out the page shows nothing, and a reload asks for a token again", async () => {
    const page = await open({ hash: "#/failed" });
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    await page.reload();
    await page.getByLabel("Token").waitFor();
    expect(await page.getByText("Failed calls").count()).toBe(0);
  });

  test("if the session cannot be ended the page says so, and shows its data until the session has ended", async () => {
    const service = await start({ redisUrl: proxy.url });
    const page = await open({ at: service.address, hash: "#/failed" });
    proxy.onCommand = () => ({ kind: "lose-command" });
    await page.getByRole("button", { name: "Log out" }).click();
    const refusal = page.getByRole("alert").filter({ hasText: "You are still logged in" });
    await refusal.waitFor();
    await shoot(page, "not-logged-out");
    expect(await page.getByLabel("Token").count()).toBe(0);
    proxy.onCommand = () => undefined;
    await expect.poll(async () => (await service.get("/api/v1/jobs")).status).toBe(200);
    await refusal.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
  });

  test("without configured tokens there is no sign-out button", async () => {
    const { address: at } = await start({ operator: { tokens: [] } });
    const page = await open({ at, as: "nobody" });
    await page.getByText("no login").waitFor();
    await page.getByRole("button", { name: "Keyboard shortcuts" }).waitFor();
    expect(await page.getByRole("button", { name: "Log out" }).count()).toBe(0);
  });

  test("a session that has ended meanwhile leads to the sign-in form, and then back to the same page", async () => {
    const page = await open({ hash: "#/failed" });
    await page.getByRole("heading", { name: "Failed calls" }).waitFor();
    await page.context().clearCookies();
    await page.getByLabel("Token").waitFor();
    await signIn(page);
    await page.getByRole("heading", { name: "Failed calls" }).waitFor();
  });
});
