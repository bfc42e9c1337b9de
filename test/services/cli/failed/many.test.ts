import { beforeAll, expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { copyId, multiplyFailed } from "../../../support/multiply-failed.ts";
import { runHereWith } from "../run-here.ts";

const fixture = useFailedCalls({ fresh: "file" });
const here = runHereWith(
  usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } })),
);

const CALLS = 3000;
const QUEUES = 300;

beforeAll(async () => {
  const [id = ""] = await fixture.fail([{ path: "/many" }]);
  const queues = Array.from({ length: QUEUES }, (_, job) => `webhook/7/${job + 1}`);
  await multiplyFailed(fixture.redis.partition, {
    ...{ of: { id, queue: "webhook/7/1" }, copies: CALLS - 1, queues, everyMs: -1 },
  });
});

onlyInLongRun(() => {
  test("postern failed replay finds 1,000 named calls among 300 queues", async () => {
    const ids = Array.from({ length: 1000 }, (_, i) => copyId(3 * i + 1));
    const ran = await here(["failed", "replay", "--dry-run", ...ids]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toBe("1000 calls would be replayed\n  runner.refused  1000\n");
  });
});

test("postern failed list lists the newest calls of 300 queues", async () => {
  const ran = await here(["failed", "list", "--endpoint", "/many", "--limit", "4"]);
  const [, , ...rows] = ran.stdout.trimEnd().split("\n");
  expect(rows.map((row) => row.split(" ")[0])).toEqual([1, 2, 3].map(copyId).concat(`${CALLS}`));
  expect(rows.at(-1)).toBe(`${CALLS} failed calls; 4 are listed (--limit 0 lists all)`);
});
