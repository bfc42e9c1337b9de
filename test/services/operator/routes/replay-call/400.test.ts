import { expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

test.each([[{}], [{ reason: "" }], [{ reason: "x", force: "yes" }]])(
  "a replay without a reason, or with what is no form of it, is refused with 400: %j",
  async (json) => {
    const [id = ""] = await calls.fail([{}]);
    const { post } = await fixture.start();
    expect(refusalOf(await post(`/api/v1/failed/${id}/replay`, json))).toEqual([400, "request.malformed"]);
    expect(await calls.calls.count({})).toBe(1);
  },
);
