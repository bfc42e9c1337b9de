import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { PricesView } from "../../../../shared/console/overview/prices.ts";
import { createSharedValue } from "../../../../shared/pricing/rates/shared-value.ts";
import type { LiveToken } from "../../../../shared/pricing/rates/source.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { tokenTable, tokenWith } from "../../../support/rate-tokens.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();

describe("200", () => {
  test("prices of jobs are listed in wei and in each token that has a rate", async () => {
    const configDir = join(tempDir(), "config");
    writeConfig(configDir, {
      postern: {},
      x402: { public_url: "https://pay.example.com", accepted_tokens: [tokenTable("3200")] },
      job_pricing: { "1": { "7": "1000000000000000" } },
    });
    const { get } = await fixture.start({ configDir });
    const { jobs, rates, gateway_url } = PricesView.parse(
      (await get("/api/v1/prices", { as: "viewer" })).json(),
    );
    expect(jobs).toMatchObject([{ job: "1/7", offers: [{ symbol: "USDC", amount: "3200000" }] }]);
    expect(rates).toMatchObject([{ symbol: "USDC", value: "3200", offered: true }]);
    expect(gateway_url).toBe("https://pay.example.com");
  });

  test("a rate from a source is listed with its history of an hour by minute, or of a day by five minutes", async () => {
    const feed = { source: "http_json", url: "https://rates.example/usdc", pointer: "/rate" };
    const bounds = { min_rate: "2000", max_rate: "4000" };
    const shared = createSharedValue(fixture.redis.partition, tokenWith(feed, bounds) as LiveToken);
    const { now } = await shared.peek();
    await shared.put("3100", now - 1_200_000);
    await shared.put("3200", now);
    const configDir = join(tempDir(), "config");
    writeConfig(configDir, { postern: {}, x402: { accepted_tokens: [{ ...tokenTable(feed), ...bounds }] } });
    const { get } = await fixture.start({ configDir });
    const read = async (query: string) => {
      const { rates } = PricesView.parse((await get(`/api/v1/prices${query}`, { as: "viewer" })).json());
      const { step_ms, values } = rates[0]?.history ?? {};
      return [step_ms, values?.length, values?.at(-1), values?.includes("3100")];
    };
    expect(await read("")).toEqual([60_000, 60, "3200", true]);
    expect(await read("?span=24h")).toEqual([300_000, 288, "3200", true]);
  });
});

describe("400", () => {
  test.each(["?span=2h", "?token=USDC"])("prices of %s are refused", async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/prices${query}`))).toEqual([400, "request.malformed"]);
  });
});

describe("500", () => {
  test("a rate source whose secret is missing gets 500, because the rate is unknown", async () => {
    const configDir = join(tempDir(), "config");
    const feed = { source: "http_json", url: "env:RATES_URL", pointer: "/rate" };
    writeConfig(configDir, {
      postern: {},
      x402: { accepted_tokens: [{ ...tokenTable(feed), min_rate: "2000", max_rate: "4000" }] },
    });
    const { get } = await fixture.start({ configDir });
    expect(refusalOf(await get("/api/v1/prices"))).toEqual([500, "start.config_invalid"]);
  });
});
