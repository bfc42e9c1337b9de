import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { tempDir } from "../../../../support/temp-dir.ts";

const fixture = useOperator();

test("a configuration that is no TOML is 500", async () => {
  const configDir = tempDir();
  writeFileSync(join(configDir, "webhooks.toml"), "[[endpoints]\n");
  const { get } = await fixture.start({ configDir });
  expect(refusalOf(await get("/api/v1/endpoints"))).toEqual([500, "start.config_invalid"]);
});
