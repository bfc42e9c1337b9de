import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../../../../shared/config/config-tables.ts";
import { PricesView } from "../../../../../shared/operator/prices.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { tokenTable } from "../../../../support/rate-tokens.ts";
import { tempDir } from "../../../../support/temp-dir.ts";

const fixture = useOperator();

test("what jobs cost is listed, in wei and in each token that has a rate", async () => {
  const configDir = join(tempDir(), "config");
  writeConfig(configDir, {
    postern: {},
    x402: { accepted_tokens: [tokenTable("3200")] },
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  const { get } = await fixture.start({ configDir });
  const { jobs, rates } = PricesView.parse((await get("/api/v1/prices", { as: "viewer" })).json());
  expect(jobs).toMatchObject([{ job: "1/7", offers: [{ symbol: "USDC", amount: "3200000" }] }]);
  expect(rates).toMatchObject([{ symbol: "USDC", value: "3200", offered: true }]);
});
