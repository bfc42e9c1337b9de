import { readFileSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { checkLayout, createClaimLayout, LAYOUT, RUNNER_LAYOUT } from "../../../shared/redis/layout.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const redis = useRedis();
const webhooks = useWebhooks({ redis });
const endpoints = [{ path: "/a", job_id: 1, auth: "none" }];
const OTHER = JSON.stringify({ layout: LAYOUT + 1, release: "9.8.7" });

const layout = () => redis.client.get(keys.layout);
const own = async () => expect(JSON.parse(String(await layout()))).toMatchObject({ layout: LAYOUT });

beforeEach(() => redis.client.flushdb());

test("CHANGELOG.md states the layouts of the newest release, so that an upgrade can be planned", () => {
  const [, newest = ""] = readFileSync(new URL("../../../CHANGELOG.md", import.meta.url), "utf8").split(
    "\n## ",
  );
  expect(newest).toContain(
    `Layout of Postern's keys: ${LAYOUT}. Layout of the runner's keys: ${RUNNER_LAYOUT}.`,
  );
});

test("the first gateway writes its layout to an empty Redis, and others of the same layout start beside it", async () => {
  await webhooks.start({ endpoints });
  await own();
  await webhooks.start({ endpoints });
});

test("a gateway does not start on another layout: it names both, and the release that drains it, and accepts nothing", async () => {
  await redis.client.set(keys.layout, OTHER);
  const { gateway, address } = await webhooks.start({ endpoints, early: true });
  await expect(gateway.firstCheck).rejects.toMatchObject({ code: "start.layout_mismatch" });
  await expect(gateway.firstCheck).rejects.toThrow(
    RegExp(
      `layout ${LAYOUT + 1}, written by release 9\\.8\\.7.* needs layout ${LAYOUT}\\. Drain Redis with release 9\\.8\\.7`,
    ),
  );
  const answer = await send(address, { path: "/a", body: "x" });
  expect(answer.json()).toMatchObject({ status: 503, code: "queue.not_durable" });
  expect([await webhooks.waiting(), await layout()]).toEqual([[], OTHER]);
});

test.each([
  ["no JSON", "layout 1"],
  ["no object", "1"],
  ["without a layout", '{"release":"0.1.0"}'],
])("what lies under the key counts as another layout if it is %s", async (_, text) => {
  await redis.client.set(keys.layout, text);
  await expect(createClaimLayout(redis.partition)()).rejects.toMatchObject({ code: "start.layout_mismatch" });
  expect(await layout()).toBe(text);
});

test("a layout key of another type than string counts as another layout", async () => {
  await redis.client.hset(keys.layout, "layout", LAYOUT);
  for (const check of [createClaimLayout(redis.partition), () => checkLayout(redis.partition)])
    await expect(check()).rejects.toMatchObject({ code: "start.layout_mismatch" });
});

test("a layout with fields of a later release counts as the same, and keeps these fields", async () => {
  const later = JSON.stringify({
    layout: LAYOUT,
    partition: { index: 0, count: 1 },
    release: "0.9.0",
    since: 1,
  });
  await redis.client.set(keys.layout, later);
  await createClaimLayout(redis.partition)();
  expect(await layout()).toBe(later);
});

test("one of two releases that start on an empty Redis at once is refused", async () => {
  const claim = createClaimLayout(redis.partition);
  for (let round = 0; round < 50; round++) {
    await redis.client.flushdb();
    const starts = [
      () =>
        claim().then(
          () => true,
          () => false,
        ),
      async () => (await redis.client.set(keys.layout, OTHER, "NX")) === "OK",
    ];
    if (round % 2 === 0) starts.reverse();
    const started = await Promise.all(starts.map((start) => start()));
    expect(started.filter(Boolean)).toHaveLength(1);
  }
});

test("a Redis that is emptied under a gateway gets its layout again", async () => {
  await webhooks.start({ endpoints });
  await redis.client.flushdb();
  await eventually("it is there again", async () => (await layout()) !== null);
  await own();
});

test("a gateway accepts nothing once its Redis was emptied and another layout was written first", async () => {
  const { address } = await webhooks.start({ endpoints });
  await redis.client.set(keys.layout, OTHER);
  await eventually("calls are refused", async () => {
    return (await send(address, { path: "/a", body: "x" })).json()["code"] === "queue.not_durable";
  });
});

test("the check of a command leaves an empty Redis to the next process", async () => {
  await checkLayout(redis.partition);
  expect(await layout()).toBeNull();
});

test("a Redis that has lost its data since the check gets no layout, and one that has an id gets it", async () => {
  const claim = createClaimLayout(redis.partition, { isChecked: true });
  await expect(claim()).rejects.toMatchObject({ code: "queue.unavailable" });
  expect(await redis.client.exists(keys.layout)).toBe(0);
  await redis.client.hset(keys.deployment, "id", "2026-11-29-shop");
  await claim();
  await own();
});
