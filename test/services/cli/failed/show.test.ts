import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { delay } from "../../../../shared/platform/time/clock.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { audited } from "../../../support/audited.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { runHere } from "../run-here.ts";

const redis = useRedis();
const fixture = useFailedCalls({ redis });
const proxy = useRedisProxy(redis);
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const show = (...args: string[]) => runHere(["failed", "show", "--config-dir", postern.configDir, ...args]);

test("postern failed show prints a text body as text, and any other body as hex with its size", async () => {
  const bodies = [
    Buffer.from('{"héllo": 1}'),
    Buffer.from([0xff, 0x00, 0x10]),
    Buffer.from("\u001b[2J"),
    Buffer.from(""),
  ];
  const ids = await fixture.fail(bodies.map((body) => ({ body })));
  const shown = await Promise.all(ids.map(async (id) => (await show(id)).stdout));
  expect(shown[0]).toContain('{"héllo": 1}\n');
  expect(shown[1]).toMatch(/body \(3 bytes, .*\nff0010\n$/);
  expect(shown[2]).toMatch(/\n1b5b324a\n$/);
  expect(shown[3]).toMatch(/\(empty\)\n$/);
  for (const text of shown) expect(text).not.toContain("\u001b");
});

test("postern failed show prints metadata, failed attempts and trace, and with --body-only the exact bytes", async () => {
  const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const [id = ""] = await fixture.fail([{ body }], "runner.failed");
  const text = (await show(id)).stdout;
  expect(text).toMatch(/\nX-WEBHOOK-PATH|\n {2}X-WEBHOOK-PATH {2}\/hooks\/a\n/);
  expect(text).toMatch(/traceparent +00-0af7651916cd43dd8448eb211c80319c-/);
  expect(text.match(/\n {2}attempt \d {2}\S+Z {2}runner\.failed: the runner said no/g)).toHaveLength(
    fixture.attempts,
  );
  expect((await postern.run(["failed", "show", id, "--body-only"])).stdoutBytes.equals(body)).toBe(true);
  const [json] = jsonLines(await show(id, "-o", "json"));
  expect(json).toMatchObject({ id, record: "FAILED", body_base64: body.toString("base64"), bytes: 256 });
  expect(json?.["failed_attempts"]).toHaveLength(fixture.attempts);
  const line = { action: "read_body", call_id: id, by: expect.stringContaining("@") };
  expect(await audited(redis.client, ["reads"])).toMatchObject([line, line, line]);
});

onlyInLongRun(() => {
  test("postern failed show prints a complete body of 25 MiB, although it takes longer than other answers may", async () => {
    const body = Buffer.alloc(25 * 1024 * 1024, 0x5a);
    const [id = ""] = await fixture.fail([{ body }]);
    proxy.onCommand = ([command = "", key = ""]) =>
      command.startsWith("hget") && key.endsWith(id) ? { kind: "late-reply", until: delay(2500) } : undefined;
    postern.configure({ postern: { redis: { url: asUser(proxy.url, "operator") } } });
    const { code, stdoutBytes } = await postern.run(["failed", "show", id, "--body-only"]);
    expect(code).toBe(0);
    expect(stdoutBytes.equals(body)).toBe(true);
    expect((await show(id)).stdout).toContain(`body (${body.length} bytes, application/json, sha256 `);
  });
});

test("postern failed show prints the known fields of stored data that is not a call", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.redis.client.hset(keys.inQueue("webhook/7/1", id), "data", "no JSON");
  expect((await show(id)).stdout).toMatch(/\nstored data \(unreadable as a call\)\n"no JSON"\n$/);
  expect(await show(id, "--body-only")).toMatchObject({
    code: 1,
    stderr: `${id}: the stored data is unreadable as a call\n`,
  });
});

test("postern failed show exits with 1 for a call that is not among the failed ones, and says where it is", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.replay(await fixture.find(id), { selection: "test" });
  expect(await show(id)).toMatchObject({
    code: 1,
    stderr: `${id} is not a failed call: it is waiting in the queue\n`,
  });
  await fixture.startProducer();
  await eventually("injected", async () => (await fixture.records.state(id)) === "INJECTED");
  await fixture.stopProducer();
  expect((await show(id)).stderr).toBe(`${id} is not a failed call: it is injected\n`);
  const unknown = `c_${"0".repeat(32)}`;
  expect(await show(unknown)).toMatchObject({ code: 1 });
});
