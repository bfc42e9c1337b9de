import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const fixture = useOperator();

describe("200", () => {
  const SECRET = "a-secret-that-nobody-is-shown";

  test("the configured endpoints are listed, without their secrets", async () => {
    const configDir = join(tempDir(), "config");
    const endpoints = [{ path: "/hooks/a", job_id: 1, auth: "bearer", secret: SECRET }];
    writeConfig(configDir, { postern: {}, webhooks: { endpoints } });
    const { get } = await fixture.start({ configDir });
    const answer = await get("/api/v1/endpoints", { as: "viewer" });
    expect(answer.json()).toMatchObject({ endpoints: [{ path: "/hooks/a", auth: "bearer", jobs: [1] }] });
    expect(answer.text).not.toContain(SECRET);
  });
});

describe("500", () => {
  test("a configuration that is not TOML gets 500", async () => {
    const configDir = tempDir();
    writeFileSync(join(configDir, "webhooks.toml"), "[[endpoints]\n");
    const { get } = await fixture.start({ configDir });
    expect(refusalOf(await get("/api/v1/endpoints"))).toEqual([500, "start.config_invalid"]);
  });
});
