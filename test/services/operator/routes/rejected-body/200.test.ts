import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { KEPT_BODY, useRejections } from "../../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const rejections = useRejections(redis);

test("what was kept of the body of a refused request comes as bytes, as nothing that a browser shows or runs", async () => {
  const { get } = await fixture.start();
  const got = await get(`/api/v1/rejected/${rejections.newest[1]?.id}/body`, { as: "viewer" });
  expect([got.status, got.body.equals(KEPT_BODY)]).toEqual([200, true]);
  expect(got.headers).toMatchObject({
    "content-type": "application/octet-stream",
    "content-disposition": expect.stringMatching(/^attachment; /),
  });
});
