import { beforeAll, expect, test } from "vitest";
import { useFailedCalls } from "../fixtures/failed-calls.ts";
import { usePostern } from "../fixtures/postern.ts";
import { asUser, useOwnRedis } from "../fixtures/redis.ts";
import { multiplyFailed } from "../support/multiply-failed.ts";

/** Runs without the append-only file, which would slow down the creation of so many calls. */
const redis = useOwnRedis(["--appendonly", "no"]);
const fixture = useFailedCalls({ redis, fresh: "file" });
const postern = usePostern(() => ({ postern: { redis: { url: asUser(redis.url, "operator") } } }));

const CALLS = 100_000;
const QUEUES = 300;
const SOME = 10_000;
/** Heap of the command, too small for a list of all calls. */
const HEAP_MIB = 48;

beforeAll(async () => {
  const [id = ""] = await fixture.fail([{ path: "/many" }]);
  const queues = Array.from({ length: QUEUES }, (_, job) => `webhook/7/${job + 1}` as const);
  const of = { id, queue: "webhook/7/1" } as const;
  await multiplyFailed(redis.partition, { of, copies: CALLS - 1, queues, everyMs: -1 });
});

const run = (...args: string[]) =>
  postern.run(["failed", ...args], { env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` } });

test(`postern failed lists, replays and discards calls among ${CALLS} failed calls of ${QUEUES} queues with a heap of ${HEAP_MIB} MiB`, {
  timeout: 600_000,
}, async () => {
  const listed = await run("list", "--limit", "0", "-o", "json");
  expect([listed.code, listed.stdout.split("\n").length - 1]).toEqual([0, CALLS]);
  expect((await run("replay", "--all", "--dry-run")).stdout).toMatch(`${CALLS} calls would be replayed\n`);
  const replayed = await run("replay", "--all", "--limit", String(SOME));
  expect([replayed.code, await fixture.calls.count({})]).toEqual([0, CALLS - SOME]);
  const discarded = await run(
    ...["discard", "--all", "--limit", String(SOME)],
    ...["--yes", "--reason", "a test"],
  );
  expect([discarded.code, await fixture.calls.count({})]).toEqual([0, CALLS - 2 * SOME]);
});
