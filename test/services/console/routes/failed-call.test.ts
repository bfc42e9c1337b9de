import { describe, expect, test } from "vitest";
import { createForget } from "../../../../shared/call-search/forget.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("a failed call is shown with its metadata, its record and its failed attempts, and without its body", async () => {
    const [id = ""] = await calls.fail([{ path: "/a" }], "runner.failed");
    const { get } = await fixture.start();
    const shown = await get(`/api/v1/failed/${id}`, { as: "viewer" });
    expect([shown.status, shown.json()]).toMatchObject([
      200,
      { id, endpoint: "/a", record: "FAILED", metadata: { "X-WEBHOOK-PATH": "/a" }, code: "runner.failed" },
    ]);
    expect(shown.json()["failed_attempts"]).toHaveLength(calls.attempts);
    expect(shown.text).not.toContain(Buffer.from(`body of ${id}`).toString("base64"));
  });

  test("a call that this release cannot read is shown with its stored data", async () => {
    const [id = ""] = await calls.fail([{}]);
    await redis.client.hset(keys.inQueue("webhook/7/1", id), "data", '{"v":99,"body":"c2VjcmV0"}');
    const { get } = await fixture.start();
    const shown = (await get(`/api/v1/failed/${id}`)).json();
    expect(shown).toMatchObject({ id, stored: { v: 99, body: "" } });
    expect(shown["metadata"]).toBeUndefined();
  });
});

describe("404", () => {
  test("an unknown call gets 404, and so does an invalid call id", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/c_${"0".repeat(32)}`))).toEqual([404, "call.unknown"]);
    expect(refusalOf(await get("/api/v1/failed/c_1"))).toEqual([404, "request.not_found"]);
  });
});

describe("409", () => {
  test("a call that is not among the failed ones gets 409, and the answer says where it is", async () => {
    const id = await calls.add();
    const { get } = await fixture.start();
    const shown = await get(`/api/v1/failed/${id}`);
    expect(refusalOf(shown)).toEqual([409, "call.not_failed"]);
    expect(shown.json()["detail"]).toBe(`${id} is not a failed call: it is waiting in the queue`);
  });
});

describe("410", () => {
  test("a forgotten call gets 410", async () => {
    const [id = ""] = await calls.fail([{}]);
    const { partition } = calls.redis;
    await createForget({ partition, clock: Date.now, log: silentLogger, by: "a test" })(id, "a test");
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/${id}`))).toEqual([410, "call.forgotten"]);
  });
});
