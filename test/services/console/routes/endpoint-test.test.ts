import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openEndpointTests } from "../../../../shared/ingress/endpoint-tests.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { auditOf } from "../audit-of.ts";

const fixture = useOperator();
beforeEach(() => fixture.redis.client.flushdb());
const ROUTE = "/api/v1/endpoints/test";
const ORDER = { path: "/hooks/a", reason: "its secret is new" };

function start() {
  const configDir = join(tempDir(), "config");
  const endpoints = [{ path: "/hooks/a", job_id: 1, auth: "none" }];
  writeConfig(configDir, { postern: {}, webhooks: { endpoints } });
  return fixture.start({ configDir });
}

/** Takes the next test order instead of a gateway. */
const taken = () =>
  eventually("the order is there", async () => {
    const [order] = await openEndpointTests(fixture.redis.partition).take(Date.now());
    return order;
  });

describe("200", () => {
  test("the answer is the outcome that a gateway reports, and the test has an audit line", async () => {
    const { post } = await start();
    const asked = post(ROUTE, ORDER);
    const outcome = { status: 202, accepted: true, detail: "accepted", call_id: null };
    await openEndpointTests(fixture.redis.partition).report(await taken(), outcome);
    expect((await asked).json()).toEqual({ path: "/hooks/a", ...outcome });
    expect(await auditOf(fixture.redis)).toMatchObject([
      { action: "test", path: "/hooks/a", by: "otto", reason: "its secret is new" },
    ]);
  });
});

describe("400", () => {
  test.each([[{}], [{ path: "/hooks/a" }], [{ reason: "x" }]])(
    "an order without a path or a reason is refused: %j",
    async (json) => {
      const { post } = await start();
      expect(refusalOf(await post(ROUTE, json))).toEqual([400, "request.malformed"]);
    },
  );
});

describe("403", () => {
  test("a viewer may not send a test", async () => {
    const { post } = await start();
    expect((await post(ROUTE, ORDER, { as: "viewer" })).status).toBe(403);
  });
});

describe("404", () => {
  test("an unknown path is refused", async () => {
    const { post } = await start();
    expect(refusalOf(await post(ROUTE, { ...ORDER, path: "/hooks/b" }))).toEqual([404, "request.not_found"]);
    expect(await auditOf(fixture.redis)).toEqual([]);
  });
});
