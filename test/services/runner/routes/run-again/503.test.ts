import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { listen } from "../../../../../shared/http/listen.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";
import { useFailingJob } from "./failing-job.ts";

const redis = useOwnRedis();
const job = useFailingJob(useRunners({ redis }));
const ends = useEnds();

test("a request to run a call again is refused with 503 while Redis is away", async () => {
  await job.fail("k");
  await redis.server.kill("SIGKILL");
  const refused = await eventually("Redis is missed", async () => {
    const answer = await job.runner.runAgain("k");
    return answer.status === 503 ? answer : undefined;
  });
  expect(refused.json()["code"]).toBe("runner.store_unavailable");
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  await redis.server.restart();
  await eventually("Redis is back", async () => (await job.look("k"))["state"] === "failed");
});

test("a request to run a call again that reaches a stopping runner is refused with 503", async () => {
  await job.fail("kept");
  const { runner } = await job.another({});
  const server = await listen(runner.handler, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  await runner.close();
  const refused = await send(server.address, { path: "/calls/kept/run" });
  expect([refused.status, refused.json()["code"]]).toEqual([503, "service.draining"]);
  expect(await job.look("kept")).toMatchObject({ state: "failed" });
});
