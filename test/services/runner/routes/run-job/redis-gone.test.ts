import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { counting, gatedShort, hasLogged } from "../../gated-jobs.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });

test("the first answer to a call outlives its runner and a crash of Redis", async () => {
  const { seen, jobs } = counting();
  const first = await runners.start({ jobs });
  await first.offer("k");
  first.drop();
  await redis.server.kill("SIGKILL");
  await redis.server.restart();
  const second = await runners.start({ jobs });
  expect((await second.offer("k")).text).toBe("run 1");
  expect(seen.runs).toBe(1);
});

test("a call during whose handler Redis is restarted runs once, and its repeat gets its answer", async () => {
  const { at, jobs } = gatedShort();
  const runner = await runners.start({ jobs, leaseMs: 500 });
  const first = runner.offer("k");
  await eventually("the handler runs", () => at.runs === 1);
  await redis.server.kill("SIGKILL");
  at.open();
  await eventually("the answer cannot be stored", () => hasLogged(runner, "job.store_delayed"));
  expect((await runner.offer("k")).status).toBe(409);
  await redis.server.restart();
  expect((await first).text).toBe("run 1");
  expect(await runner.offer("k")).toMatchObject({ status: 200, text: "run 1" });
  expect(at.runs).toBe(1);
});
