import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("the body of a waiting call is returned byte for byte, with headers that keep a browser from showing or running it", async () => {
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
    expect(await audited(redis.client, ["reads"])).toMatchObject([
      { action: "read_body", call_id: id, by: "vera" },
    ]);
    expect(await audited(redis.client)).toEqual([]);
  });

  test("a search and the life of a call write no audit line, so that scrolling writes nothing", async () => {
    const id = await calls.add();
    const { get } = await fixture.start();
    for (const path of ["calls", `calls/${id}`, "failed", "rejected", "payments"])
      expect((await get(`/api/v1/${path}`, { as: "viewer" })).status).toBe(200);
    expect(await audited(redis.client, ["acts", "repeats", "money", "reads"])).toEqual([]);
  });

  test("a body is not returned if its audit line cannot be written", async () => {
    const id = await calls.add({ body: Buffer.from("secret") });
    await redis.client.set(keys.audit("reads"), "no stream");
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/calls/${id}/body`);
    expect(refusalOf(refused)).toEqual([503, "queue.unavailable"]);
    expect(refused.text).not.toContain("secret");
  });
});

describe("404", () => {
  test("the body of an ended or unknown call gets 404, with the reason", async () => {
    const id = await calls.add();
    await calls.startProducer();
    await eventually("it has ended", async () => (await calls.records.state(id)) === "INJECTED");
    const { get } = await fixture.start();
    const ended = await get(`/api/v1/calls/${id}/body`);
    expect(refusalOf(ended)).toEqual([404, "call.no_body"]);
    expect(await audited(redis.client, ["reads"])).toEqual([]);
    expect(ended.json()["detail"]).toBe(`${id}: its body is not kept; the call is injected`);
    const none = await get(`/api/v1/calls/c_${"0".repeat(32)}/body`);
    expect(refusalOf(none)).toEqual([404, "call.unknown"]);
  });
});
