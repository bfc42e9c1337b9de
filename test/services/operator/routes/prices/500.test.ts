import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../../../../shared/config/config-tables.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { tokenTable } from "../../../../support/rate-tokens.ts";
import { tempDir } from "../../../../support/temp-dir.ts";

const fixture = useOperator();

test("a source of rates whose secret is not here is 500: the rate cannot be told", async () => {
  const configDir = join(tempDir(), "config");
  const feed = { source: "http_json", url: "env:RATES_URL", pointer: "/rate" };
  writeConfig(configDir, {
    postern: {},
    x402: { accepted_tokens: [{ ...tokenTable(feed), min_rate: "2000", max_rate: "4000" }] },
  });
  const { get } = await fixture.start({ configDir });
  expect(refusalOf(await get("/api/v1/prices"))).toEqual([500, "start.config_invalid"]);
});
