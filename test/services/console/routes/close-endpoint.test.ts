import { beforeEach, describe, expect, test } from "vitest";
import { createOpenedEndpoints, createTakeSecret } from "../../../../shared/ingress/opened-endpoints.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { auditOf } from "../audit-of.ts";

const fixture = useOperator();
const ROUTE = "/api/v1/endpoints/close";
const path = "/hooks/asana";

beforeEach(async () => {
  await fixture.redis.client.flushdb();
});

function open() {
  const act = { at: Date.now(), action: "open", path, by: "ops@host", selection: "for 1 min" } as const;
  return createOpenedEndpoints(fixture.redis.partition).open(act, 60_000);
}

describe("200", () => {
  test("an endpoint that waits for a secret is closed, and neither the answer nor the audit log has the secret", async () => {
    const opened = await open();
    const secret = "a-secret-that-nobody-has-seen";
    expect(await createTakeSecret(fixture.redis.partition)(path, secret, "192.0.2.1")).toBe(true);
    const { post } = await fixture.start();
    const closed = await post(ROUTE, { path });
    expect(closed.json()).toEqual({ path, opened_by: "ops@host", secret_deleted: true });
    expect(await opened.look()).toEqual({ kind: "closed" });
    const audit = await auditOf(fixture.redis);
    expect(audit).toMatchObject([{ action: "open" }, { action: "close", path, by: "otto" }]);
    expect(JSON.stringify(audit)).not.toContain(secret);
  });
});

describe("400", () => {
  test.each([[{}], [{ path: "" }], [{ path, reason: "x" }]])("a body %j is refused", async (json) => {
    const { post } = await fixture.start();
    expect(refusalOf(await post(ROUTE, json))).toEqual([400, "request.malformed"]);
  });
});

describe("403", () => {
  test("a viewer may not close an endpoint", async () => {
    const opened = await open();
    const { post } = await fixture.start();
    expect((await post(ROUTE, { path }, { as: "viewer" })).status).toBe(403);
    expect(await opened.look()).toEqual({ kind: "open" });
  });
});

describe("404", () => {
  test("an endpoint that is not open is not closed, and no audit line is written", async () => {
    const { post } = await fixture.start();
    const refused = await post(ROUTE, { path });
    expect(refusalOf(refused)).toEqual([404, "request.not_found"]);
    expect(refused.json()["detail"]).toBe("/hooks/asana is not open");
    expect(await auditOf(fixture.redis)).toEqual([]);
  });
});
