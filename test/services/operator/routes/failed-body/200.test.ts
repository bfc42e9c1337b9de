import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("the body of a failed call comes as the bytes that it is, and as nothing that a browser shows or runs", async () => {
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
});

test("a body of 25 MiB comes whole", async () => {
  const body = Buffer.alloc(25 * 1024 * 1024, 0x5a);
  const [id = ""] = await calls.fail([{ body }]);
  const { get } = await fixture.start();
  expect((await get(`/api/v1/failed/${id}/body`)).body.equals(body)).toBe(true);
});
