import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { audited } from "../../../support/audited.ts";
import { KEPT_BODY, useRejections } from "../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const rejections = useRejections(redis);

describe("200", () => {
  test("the stored body of a refused request is returned byte for byte, with headers that keep a browser from showing or running it", async () => {
    const { get } = await fixture.start();
    const got = await get(`/api/v1/rejected/${rejections.newest[1]?.id}/body`, { as: "viewer" });
    expect([got.status, got.body.equals(KEPT_BODY)]).toEqual([200, true]);
    expect(got.headers).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": expect.stringMatching(/^attachment; /),
    });
    expect((await audited(redis.client, ["reads"])).at(-1)).toMatchObject({
      ...{ action: "read_rejected", rejected_id: rejections.newest[1]?.id, by: "vera" },
    });
  });
});

describe("404", () => {
  test("a body of a refused request that was not stored gets 404, and so does that of an unknown request", async () => {
    const { get } = await fixture.start();
    const unkept = await get(`/api/v1/rejected/${rejections.newest[2]?.id}/body`);
    expect(refusalOf(unkept)).toEqual([404, "rejected.no_body"]);
    expect(refusalOf(await get("/api/v1/rejected/r_0000/body"))).toEqual([404, "rejected.unknown"]);
  });
});
