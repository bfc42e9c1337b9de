import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";

const redis = useOwnRedis();
const fixture = useOperator({ redis });

test("while Redis is away the API answers 503 at once, and is well again once it is back", async () => {
  const { get, readiness } = await fixture.start();
  await redis.server.kill("SIGKILL");
  await eventually("Redis is missed", () => !readiness().ready);
  const refused = await get("/api/v1/failed");
  expect(refusalOf(refused)).toEqual([503, "queue.unavailable"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  await redis.server.restart();
  await eventually("Redis is found", () => readiness().ready);
  expect((await get("/api/v1/failed")).status).toBe(200);
});
