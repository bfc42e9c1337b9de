import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../fixtures/operator.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("the body of a call that waits comes as the bytes that it is, and as nothing that a browser shows or runs", async () => {
    const body = Buffer.concat([Buffer.from("<script>alert(1)</script>"), Buffer.from([0, 0xff, 0x0a])]);
    const id = await calls.add({ body });
    const { get } = await fixture.start();
    const got = await get(`/api/v1/calls/${id}/body`, { as: "viewer" });
    expect([got.status, got.body.equals(body)]).toEqual([200, true]);
    expect(got.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": `attachment; filename="${id}"`,
      "x-content-type-options": "nosniff",
    });
  });
});

describe("404", () => {
  test("the body of a call that has ended is 404, which says that, and so is the body of no call", async () => {
    const id = await calls.add();
    await calls.startProducer();
    await eventually("it has ended", async () => (await calls.records.state(id)) === "INJECTED");
    const { get } = await fixture.start();
    const ended = await get(`/api/v1/calls/${id}/body`);
    expect(refusalOf(ended)).toEqual([404, "call.no_body"]);
    expect(ended.json()["detail"]).toBe(`${id}: its body is not kept; the call is injected`);
    const none = await get(`/api/v1/calls/c_${"0".repeat(32)}/body`);
    expect(refusalOf(none)).toEqual([404, "call.unknown"]);
  });
});
