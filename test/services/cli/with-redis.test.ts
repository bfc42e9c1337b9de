import { expect, test } from "vitest";
import { unconfigured } from "../../../services/cli/with-redis.ts";
import { LAYOUT } from "../../../shared/redis/layout.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, keys, useRedis } from "../../fixtures/redis.ts";
import { runHere, runHereWith } from "./run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: "redis://:a-password@127.0.0.1:1" } },
}));
const here = runHereWith(postern);

test("postern failed list, failed replay and status exit with 1 without Redis, after one clear line", async () => {
  const lines = [
    ["failed", "list"],
    ["failed", "replay", "--all"],
  ];
  for (const ran of await Promise.all([
    runHereWith(postern)(["status"]),
    ...lines.map((args) => here(args)),
  ])) {
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Redis at 127\.0\.0\.1:1 cannot be reached: .*\n$/),
    });
  }
});

test("if Redis cannot be reached and the directory has no configuration files, the message says so", async () => {
  expect(unconfigured(postern.configDir)).toBe("");
  expect(unconfigured("config")).toBe(
    '; the directory config has no configuration files: give the right directory with --config-dir (postern dev prints its own, in the line "status")',
  );
});

test("postern failed list exits with 3 without a configuration directory", async () => {
  expect(await runHere(["failed", "list", "--config-dir", "/nowhere"])).toMatchObject({ code: 3 });
});

test("a command exits with 1 on the data of another layout, after one line that names the release for it", async () => {
  const layout = JSON.stringify({ layout: LAYOUT + 1, release: "9.8.7" });
  await redis.client.set(keys.layout, layout);
  postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } } });
  for (const line of [["failed", "list"], ["payments", "list"], ["status"]]) {
    const { code, stdout, stderr } = await here(line);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^Redis holds layout \d+, written by release 9\.8\.7.* Drain Redis with release 9\.8\.7: .*\(docs\/upgrade\.md\)\n$/,
    );
  }
  expect(await redis.client.get(keys.layout)).toBe(layout);
});

test("a command does not write the layout to an empty Redis", async () => {
  await redis.client.flushdb();
  postern.configure({ postern: { redis: { url: asUser(redis.url, "operator") } } });
  expect(await here(["payments", "list"])).toMatchObject({ code: 0 });
  expect(await redis.client.keys("*")).toEqual([]);
});
