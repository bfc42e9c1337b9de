import { describe, expect, test } from "vitest";
import { useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("failed calls are counted, those that match and all", async () => {
    await calls.fail([{ path: "/a" }, { path: "/b" }, { path: "/b" }]);
    const { get } = await fixture.start();
    expect((await get("/api/v1/failed/count?endpoint=/b")).json()).toEqual({ matched: 2, total: 3 });
  });
});
