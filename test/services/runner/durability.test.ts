import { expect, test } from "vitest";
import { echo } from "../../../services/runner/jobs.ts";
import { createRouter } from "../../../services/runner/router.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { useRunners } from "../../fixtures/runners.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis });
const jobs = () => createRouter().job(1, echo);

test.each([
  ["does not sync while it rewrites its append-only file", "no-appendfsync-on-rewrite", "yes", "no"],
  ["evicts keys", "maxmemory-policy", "allkeys-lru", "noeviction"],
])(
  "a runner whose Redis %s from now on accepts no call until that is fixed",
  async (_, name, weak, strong) => {
    const runner = await runners.start({ jobs: jobs() });
    await redis.client.config("SET", name, weak);
    const isReady = async () => (await runner.get("/readyz")).status === 200;
    await eventually("it is not ready", async () => !(await isReady()));
    const refused = await runner.offer("a");
    expect([refused.status, refused.json()["code"]]).toEqual([429, "runner.throttled"]);
    await redis.client.config("SET", name, strong);
    await eventually("it is ready", isReady);
    expect((await runner.offer("a")).status).toBe(200);
  },
);

test("a runner whose Redis has no maxmemory logs one warning", async () => {
  const { log } = await runners.start({ jobs: jobs() });
  expect(log.events.filter(({ event }) => event === "redis.unbounded")).toHaveLength(1);
});
