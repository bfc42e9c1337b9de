import { expect, test } from "vitest";
import { usePostern } from "../../fixtures/postern.ts";

const { run } = usePostern(() => ({ postern: { redis: { url: "redis://:a-password@127.0.0.1:1" } } }));

test("postern failed list, failed replay and status exit with 1 without Redis, after one clear line, within seconds", async () => {
  const startedAt = performance.now();
  const lines = [["failed", "list"], ["failed", "replay", "--all"], ["status"]];
  for (const ran of await Promise.all(lines.map((args) => run(args)))) {
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Redis at 127\.0\.0\.1:1 cannot be reached: .*\n$/),
    });
  }
  expect(performance.now() - startedAt).toBeLessThan(8000);
});

test("postern failed list exits with 3 on a configuration that is not there", async () => {
  expect(await run(["failed", "list", "--config-dir", "/nowhere"])).toMatchObject({ code: 3 });
});
