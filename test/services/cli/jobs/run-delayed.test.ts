import { expect, test } from "vitest";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { delayCalls } from "../../../support/delay-calls.ts";
import { runHereWith } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

test("postern jobs run-delayed runs the delayed calls of each named job, and says which jobs have none", async () => {
  for (let i = 0; i < 3; i += 1) await fixture.add();
  await delayCalls(fixture.redis.partition);
  expect(await here(["jobs", "run-delayed", "7/1", "7/2"])).toMatchObject({
    code: 1,
    stdout: "7/1: 3 delayed calls can run now\n",
    stderr: "7/2 has no delayed calls, and no queue\n",
  });
  expect(await fixture.audited()).toMatchObject([
    {
      action: "run_delayed",
      job: "7/1",
      by: expect.stringContaining("@"),
      reason: "postern jobs run-delayed",
    },
  ]);
});

test("postern jobs run-delayed says that the calls of a paused job will run once it is resumed", async () => {
  await fixture.add();
  await delayCalls(fixture.redis.partition);
  await openJobs(fixture.redis.partitions).pause("7/1", { at: 1, by: "otto", reason: "x" });
  expect(await here(["jobs", "run-delayed", "7/1"])).toMatchObject({
    code: 0,
    stdout: "7/1: 1 delayed call can run once the job is resumed\n",
  });
});

test("postern calls run-now runs a delayed call, named by a prefix of its id, and refuses a waiting call", async () => {
  await fixture.add();
  const [id = ""] = await delayCalls(fixture.redis.partition);
  const ran = await here(["calls", "run-now", id.slice(0, 12), "-o", "json"]);
  expect([ran.code, jsonLines(ran)]).toEqual([0, [{ call_id: id }]]);
  expect(await here(["calls", "run-now", id])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`${id} is not delayed; the call is waiting`),
  });
  expect(await fixture.audited()).toMatchObject([{ action: "run_now", call_id: id }]);
});
