import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { auditOf } from "../audit-of.ts";

const fixture = useOperator();
const ROUTE = "/api/v1/endpoints/state";

function start() {
  const configDir = join(tempDir(), "config");
  const endpoints = [{ path: "/hooks/a", job_id: 1, auth: "none" }];
  writeConfig(configDir, { postern: {}, webhooks: { endpoints } });
  return fixture.start({ configDir });
}

describe("200", () => {
  test("an endpoint is disabled and enabled again, each with an audit line, and the list shows by whom", async () => {
    const { post, get } = await start();
    const order = { path: "/hooks/a", state: "disabled", reason: "it loops" };
    expect((await post(ROUTE, order)).json()).toEqual({
      ...{ path: "/hooks/a", state: "disabled", changed: true, held: 0 },
    });
    expect((await post(ROUTE, order)).json()).toMatchObject({ changed: false });
    expect((await get("/api/v1/endpoints")).json()).toMatchObject({
      endpoints: [{ path: "/hooks/a", state: "disabled", set: { by: "otto", reason: "it loops" }, held: 0 }],
    });
    await post(ROUTE, { ...order, state: "enabled", reason: "mended" });
    expect((await get("/api/v1/endpoints")).json()).toMatchObject({
      endpoints: [{ path: "/hooks/a", state: "enabled", set: null }],
    });
    expect(await auditOf(fixture.redis)).toMatchObject([
      { action: "disable", path: "/hooks/a", by: "otto", reason: "it loops" },
      { action: "enable", path: "/hooks/a", by: "otto", reason: "mended" },
    ]);
  });
});

describe("400", () => {
  test.each([[{}], [{ path: "/hooks/a", state: "off", reason: "x" }], [{ path: "/hooks/a", state: "held" }]])(
    "an order without a path, a known state or a reason is refused: %j",
    async (json) => {
      const { post } = await start();
      expect(refusalOf(await post(ROUTE, json))).toEqual([400, "request.malformed"]);
    },
  );
});

describe("403", () => {
  test("a viewer may not disable an endpoint", async () => {
    const { post } = await start();
    const order = { path: "/hooks/a", state: "disabled", reason: "x" };
    expect((await post(ROUTE, order, { as: "viewer" })).status).toBe(403);
  });
});

describe("404", () => {
  beforeEach(async () => {
    await fixture.redis.client.flushdb();
  });

  test("an unknown path is refused with a suggestion, so that no operator believes it disabled", async () => {
    const { post } = await start();
    const refused = await post(ROUTE, { path: "/hooks/a/", state: "disabled", reason: "x" });
    expect(refusalOf(refused)).toEqual([404, "request.not_found"]);
    expect(refused.json()["detail"]).toContain("did you mean /hooks/a?");
    expect(await auditOf(fixture.redis)).toEqual([]);
  });
});
