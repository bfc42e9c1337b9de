import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { KEPT_BODY, useRejections } from "../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const rejections = useRejections(redis);

describe("200", () => {
  test("a refused request is shown with its stored body", async () => {
    const { get } = await fixture.start();
    const shown = await get(`/api/v1/rejected/${rejections.newest[1]?.id}`, { as: "viewer" });
    expect([shown.status, shown.json()]).toMatchObject([
      200,
      { code: "request.too_large", endpoint: "/a", body_base64: KEPT_BODY.toString("base64") },
    ]);
  });
});

describe("404", () => {
  test("an unknown or expired refused request gets 404, and so does an invalid id", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get("/api/v1/rejected/r_0000"))).toEqual([404, "rejected.unknown"]);
    expect(refusalOf(await get("/api/v1/rejected/r_"))).toEqual([404, "request.not_found"]);
  });
});

describe("409", () => {
  test("a prefix of several ids gets 409, and the answer names one of them", async () => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/rejected/${rejections.newest[0]?.id.slice(0, 6)}`);
    expect(refusalOf(refused)).toEqual([409, "rejected.ambiguous"]);
    expect(refused.json()["detail"]).toMatch(/3 request ids start with it, such as r_\w{19}$/);
  });
});
