import { join } from "node:path";
import { expect, test } from "vitest";
import { writeConfig } from "../../../../../shared/config/config-tables.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { tempDir } from "../../../../support/temp-dir.ts";

const fixture = useOperator();
const SECRET = "a-secret-that-nobody-is-shown";

test("the endpoints of the configuration are listed, without what is secret of them", async () => {
  const configDir = join(tempDir(), "config");
  const endpoints = [{ path: "/hooks/a", job_id: 1, auth: "bearer", secret: SECRET }];
  writeConfig(configDir, { postern: {}, webhooks: { endpoints } });
  const { get } = await fixture.start({ configDir });
  const answer = await get("/api/v1/endpoints", { as: "viewer" });
  expect(answer.json()).toMatchObject({ endpoints: [{ path: "/hooks/a", auth: "bearer", jobs: [1] }] });
  expect(answer.text).not.toContain(SECRET);
});
