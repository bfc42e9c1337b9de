import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis });

test("the list of calls is answered with 503 and Retry-After while Redis is away", async () => {
  const { get } = await runners.start({ jobs: createRouter() });
  await redis.server.kill("SIGKILL");
  await eventually("Redis is missed", async () => (await get("/readyz")).status === 503);
  const refused = await get("/calls");
  expect([refused.status, refused.json()["code"]]).toEqual([503, "runner.store_unavailable"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
});
