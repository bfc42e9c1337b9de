import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

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
