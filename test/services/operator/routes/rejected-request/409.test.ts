import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { useRejections } from "../../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });
const rejections = useRejections(redis);

test("the beginning of several ids is 409, which names one of them", async () => {
  const { get } = await fixture.start();
  const refused = await get(`/api/v1/rejected/${rejections.newest[0]?.id.slice(0, 6)}`);
  expect(refusalOf(refused)).toEqual([409, "rejected.ambiguous"]);
  expect(refused.json()["detail"]).toMatch(/the ids of 3 requests begin so, as r_\w{19}$/);
});
