import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { createPricingService } from "../../../services/pricing/pricing.ts";
import { pricingToml } from "../../../shared/config/pricing-toml.ts";
import { DOMAIN, KEY, OPERATOR, PRICING, usePricing, wireRequest } from "../../fixtures/pricing.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";

const weak = useOwnRedis(["--appendfsync", "everysec"]);
const pricing = usePricing({ redis: weak });

test.each([
  ["is empty", ""],
  ["is 0x", "0x"],
  ["is zero", `0x${"0".repeat(64)}`],
  ["is a digit short", KEY.slice(0, -1)],
  ["is no number of the curve", `0x${"f".repeat(64)}`],
])("an engine whose key %s is refused", (_, key) => {
  expect(() =>
    createPricingService({
      postern: { redis: { url: weak.url } },
      pricing: { ...PRICING.pricing, key, quote_ttl_secs: 1 },
      job_pricing: {},
    }),
  ).toThrow(/^pricing: key: (?:must be a private key|is empty)/);
});

test("an engine's key is accepted with and without 0x, from the file and in code, with the same address", async () => {
  const table = { key: "env:KEY", domain: { chain_id: 1, verifying_contract: DOMAIN.verifyingContract } };
  for (const text of [KEY, KEY.slice(2)]) {
    const { key } = pricingToml({ env: { KEY: text } }).parse(table);
    const engine = await pricing.engine({ key, early: true });
    expect(engine.service.operator).toBe(OPERATOR);
  }
});

test("an engine with a Redis that may lose writes fails its first check and gives no quotes", async () => {
  const engine = await pricing.engine({ early: true });
  await expect(engine.service.firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.UNAVAILABLE });
});
