import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("the body of a failed call is returned byte for byte, with headers that keep a browser from showing or running it", async () => {
    const body = Buffer.concat([Buffer.from("<script>alert(1)</script>"), Buffer.from([0, 0xff, 0x0a])]);
    const [id = ""] = await calls.fail([{ body }]);
    const { get } = await fixture.start();
    const got = await get(`/api/v1/failed/${id}/body`, { as: "viewer" });
    expect([got.status, got.body.equals(body)]).toEqual([200, true]);
    expect(got.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename="${id}"`,
      "x-content-type-options": "nosniff",
      "content-security-policy": expect.stringContaining("default-src 'none'"),
      "cache-control": "no-store",
    });
    expect(await audited(redis.client, ["reads"])).toMatchObject([
      { action: "read_body", call_id: id, by: "vera" },
    ]);
  });

  onlyInLongRun(() => {
    test("a body of 25 MiB is returned completely", async () => {
      const body = Buffer.alloc(25 * 1024 * 1024, 0x5a);
      const [id = ""] = await calls.fail([{ body }]);
      const { get } = await fixture.start();
      expect((await get(`/api/v1/failed/${id}/body`)).body.equals(body)).toBe(true);
    });
  });
});

describe("404", () => {
  test("the body of an unknown call gets 404", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/c_${"0".repeat(32)}/body`))).toEqual([404, "call.unknown"]);
  });
});

describe("409", () => {
  test("the body of a call that is not among the failed ones gets 409", async () => {
    const id = await calls.add();
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/${id}/body`))).toEqual([409, "call.not_failed"]);
  });
});

describe("500", () => {
  test("stored data that cannot be read as a call has no body: 500 with its code", async () => {
    const [id = ""] = await calls.fail([{}]);
    await redis.client.hset(keys.inQueue("webhook/7/1", id), "data", "no JSON");
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/${id}/body`))).toEqual([500, "call.corrupt"]);
  });
});
