import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test("of several operators who replay a call at once one does, and the others are told that it has left: 409", async () => {
  const [id = ""] = await calls.fail([{}]);
  const [one, other] = [await fixture.start(), await fixture.start()];
  const both = [one, other, one, other].map(({ post }) =>
    post(`/api/v1/failed/${id}/replay`, { reason: "x" }),
  );
  const statuses = (await Promise.all(both)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([204, 409, 409, 409]);
  expect(await calls.audited()).toHaveLength(1);
});

test("a call older than the runner's memory of keys is left alone without force: 409", async () => {
  const [id = ""] = await calls.fail([{ acceptedAt: Date.now() - 31 * 86_400_000 }]);
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/failed/${id}/replay`, { reason: "x" });
  expect(refusalOf(refused)).toEqual([409, "call.too_old"]);
  expect(await calls.calls.count({})).toBe(1);
});
