import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { KEPT_BODY, useRejections } from "../../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const rejections = useRejections(redis);

test("a refused request is shown with the body that was kept of it", async () => {
  const { get } = await fixture.start();
  const shown = await get(`/api/v1/rejected/${rejections.newest[1]?.id}`, { as: "viewer" });
  expect([shown.status, shown.json()]).toMatchObject([
    200,
    { code: "request.too_large", endpoint: "/a", body_base64: KEPT_BODY.toString("base64") },
  ]);
});
