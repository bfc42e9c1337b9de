import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("202", () => {
  const calls = useFailedCalls({ redis });

  test("a discard by a filter ends the calls for good, including old ones, with their audit lines", async () => {
    const old = Date.now() - 31 * 86_400_000;
    const [one = "", , other = ""] = await calls.fail([
      { path: "/a" },
      { path: "/a", acceptedAt: old },
      { path: "/b" },
    ]);
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/discards", {
      filter: { endpoint: "/a" },
      reason: "test calls",
    });
    const run = await runIn(service, String(begun.headers["location"]), "done");
    expect(run).toMatchObject({ kind: "discard", matched: 2, done: 2, needs_force_count: 0 });
    expect(await calls.calls.find(other)).toBeDefined();
    expect(await redis.client.exists(keys.inQueue("webhook/7/1", one))).toBe(0);
    expect(await calls.audited()).toMatchObject(
      ["begin_discard", "discard", "discard"].map((action) => ({
        ...{ action, by: "otto", reason: "test calls", run: run.id },
      })),
    );
  });
});

describe("400", () => {
  test.each([[{ reason: "x" }], [{ all: true }], [{ all: true, force: true, reason: "x" }]])(
    "a discard of %j is refused with 400",
    async (order) => {
      const { post } = await fixture.start();
      expect(refusalOf(await post("/api/v1/failed/discards", order))).toEqual([400, "request.malformed"]);
    },
  );
});
