import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keys } from "../../../../shared/redis/keys.ts";
import { cliOf, type Fixture, type Ran, startFixture } from "../../../failed/failed-fixture.ts";

let fixture: Fixture;
let postern: ReturnType<typeof cliOf>;
beforeAll(async () => {
  fixture = await startFixture();
  postern = cliOf(fixture.server.url);
});
afterEach(() => fixture.clear());
afterAll(() => fixture.stop());

const DAY_MS = 86_400_000;
const jsonLines = ({ stdout }: Ran) =>
  stdout
    .toString()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("list --json prints one object a line on stdout, newest first, and nothing else there", async () => {
  const ids = [
    ...(await fixture.fail([{ path: "/a" }])),
    ...(await fixture.fail([{ path: "/b" }, { path: "/b" }])),
  ];
  const ran = await postern(["failed", "list", "--endpoint", "/b", "--json"]);
  expect(ran.code).toBe(0);
  const lines = jsonLines(ran);
  expect(lines.map((line) => line["id"]).toSorted()).toEqual(ids.slice(1).toSorted());
  expect(lines[0]).toMatchObject({
    origin: "webhook",
    path: "/b",
    job_id: 1,
    code: "runner.refused",
    attempts: 1,
  });
  expect(ran.stderr).toBe("2 of 3 failed calls match\n");
});

test("the table has a line a call, free of what a terminal would obey, and says how many more match", async () => {
  await fixture.fail([{}, {}, {}]);
  const ran = await postern(["failed", "list", "--limit", "2"]);
  const lines = ran.stdout.toString().trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[1]).toMatch(
    /^c_[0-9a-f]{32} {2}\S+Z {2}webhook \/hooks\/a +1 +1 +runner\.refused +the runner said no {2}\[31m$/,
  );
  expect(lines[3]).toBe("3 of 3 failed calls match; 2 are listed (--limit 0 lists all)");
});

test("show prints a text body as text and any other as hex with its size", async () => {
  const bodies = [
    Buffer.from('{"héllo": 1}'),
    Buffer.from([0xff, 0x00, 0x10]),
    Buffer.from("\u001b[2J"),
    Buffer.from(""),
  ];
  const ids = await fixture.fail(bodies.map((body) => ({ body })));
  const shown = await Promise.all(
    ids.map(async (id) => (await postern(["failed", "show", id])).stdout.toString()),
  );
  expect(shown[0]).toContain('{"héllo": 1}\n');
  expect(shown[1]).toMatch(/body \(3 bytes, .*\nff0010\n$/);
  expect(shown[2]).toMatch(/\n1b5b324a\n$/);
  expect(shown[3]).toMatch(/\(empty\)\n$/);
  for (const text of shown) expect(text).not.toContain("\u001b");
});

test("show prints metadata, failed attempts, record and trace; --body-only the very bytes", async () => {
  const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const [id = ""] = await fixture.fail([{ body }], "runner.failed");
  const text = (await postern(["failed", "show", id])).stdout.toString();
  expect(text).toMatch(/\nX-WEBHOOK-PATH|\n {2}X-WEBHOOK-PATH {2}\/hooks\/a\n/);
  expect(text).toMatch(/record +FAILED\n/);
  expect(text).toMatch(/traceparent +00-0af7651916cd43dd8448eb211c80319c-/);
  expect(text.match(/\n {2}\S+Z {2}runner\.failed: the runner said no/g)).toHaveLength(fixture.attempts);
  expect((await postern(["failed", "show", id, "--body-only"])).stdout.equals(body)).toBe(true);
  const [json] = jsonLines(await postern(["failed", "show", id, "--json"]));
  expect(json).toMatchObject({ id, record: "FAILED", body_base64: body.toString("base64"), bytes: 256 });
  expect(json?.["failed_attempts"]).toHaveLength(fixture.attempts);
});

test("show of a call that is not among the failed ones exits 1 and says where it is", async () => {
  const [id = ""] = await fixture.fail([{}]);
  await fixture.replay(await fixture.find(id), { selection: "test" });
  expect(await postern(["failed", "show", id])).toMatchObject({
    code: 1,
    stderr: `${id} is not among the failed calls: it is waiting in the queue\n`,
  });
  await fixture.startProducer();
  await eventually("injected", async () => (await fixture.records.state(id)) === "INJECTED");
  await fixture.stopProducer();
  expect((await postern(["failed", "show", id])).stderr).toBe(
    `${id} is not among the failed calls: its record says injected\n`,
  );
  const unknown = `c_${"0".repeat(32)}`;
  expect(await postern(["failed", "show", unknown])).toMatchObject({ code: 1 });
});

test("an unfiltered bulk wants --all, and --dry-run counts by code and changes nothing", async () => {
  await fixture.fail([{}, {}]);
  await fixture.fail([{}], "runner.failed");
  expect(await postern(["failed", "replay"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--all"),
  });
  expect(await postern(["failed", "replay", "--limit", "1"])).toMatchObject({ code: 2 });
  const dry = await postern(["failed", "replay", "--all", "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, stderr: "" });
  expect(dry.stdout.toString()).toMatch(
    /^3 calls would be replayed\n {2}runner\.(refused {2}2|failed {2}1)\n/,
  );
  expect(await fixture.calls.count({})).toBe(3);
  const some = await postern(["failed", "replay", "--code", "runner.refused"]);
  expect(some).toMatchObject({ code: 0 });
  expect(some.stdout.toString()).toBe("replayed 2 of 2 calls\n");
  const [entry] = await fixture.redis.xrange(keys.audit, "-", "+");
  expect(entry?.[1].join(" ")).toMatch(/by \S+@\S+ selection --code runner\.refused --until \S+Z$/);
  expect(await postern(["failed", "replay", "--all"])).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(0);
});

test("a call older than the runner's memory of keys is not replayed without --force", async () => {
  const [old = "", young = ""] = await fixture.fail([{ acceptedAt: Date.now() - 31 * DAY_MS }, {}]);
  const ran = await postern(["failed", "replay", "--all"]);
  expect(ran.code).toBe(1);
  expect(ran.stdout.toString()).toBe("replayed 1 of 2 calls\n");
  expect(ran.stderr).toContain(`1 call needs --force`);
  expect(ran.stderr).toContain(`\n  ${old}\n`);
  expect(await fixture.calls.find(young)).toBeUndefined();
  const forced = await postern(["failed", "replay", old, "--force", "--json"]);
  expect(forced.code).toBe(0);
  expect(jsonLines(forced)[0]).toMatchObject({
    action: "replay",
    matched: 1,
    done: 1,
    needs_force: [],
    missing: [],
  });
});

test("a named call that is not among the failed ones exits 1, the others are replayed", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const unknown = `c_${"0".repeat(32)}`;
  const ran = await postern(["failed", "replay", unknown, "--id", id]);
  expect(ran.code).toBe(1);
  expect(ran.stdout.toString()).toBe("replayed 1 of 1 call\n");
  expect(ran.stderr).toContain(`${unknown} is not among the failed calls, and nothing is known of it`);
  expect(await postern(["failed", "replay", "meta"])).toMatchObject({ code: 2 });
});

test("discard wants a reason and somebody's yes", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await postern(["failed", "discard", id, "--yes"])).toMatchObject({ code: 2 });
  expect(await postern(["failed", "discard", id, "--reason", "x"])).toMatchObject({ code: 2 });
  expect(await postern(["failed", "discard", "--yes", "--reason", "x"])).toMatchObject({ code: 2 });
  expect(await postern(["failed", "discard", id, "--reason", "x", "--dry-run"])).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(1);
  expect(await postern(["failed", "discard", id, "--reason", "x", "--yes"])).toMatchObject({ code: 0 });
  expect(await fixture.records.state(id)).toBe("DISCARDED");
});

test("a run ended by Ctrl-C says what is done and how to go on, and that command does exactly the rest", async () => {
  const ids = await fixture.fail(Array.from({ length: 1500 }, () => ({ path: "/it's" })));
  let sent = false;
  const first = await postern(["failed", "replay", "--endpoint", "/it's", "--concurrency", "1"], {
    onStderr(soFar, kill) {
      if (sent || !soFar.includes("call.replayed")) return;
      sent = true;
      kill("SIGINT");
    },
  });
  expect(first.code).toBe(1);
  const done = Number(/^replayed (\d+) of 1500 calls\n$/.exec(first.stdout.toString())?.[1]);
  expect(done).toBeGreaterThan(0);
  expect(done).toBeLessThan(1500);
  expect(await fixture.calls.count({})).toBe(1500 - done);
  const line = first.stderr.trimEnd().split("\n").at(-1) ?? "";
  expect(line).toMatch(
    /^ {2}postern failed replay --endpoint '\/it'\\''s' --until \S+Z --concurrency 1 --config-dir \S+$/,
  );
  // What was done fails again: failed after the first run began, it is no part of the rest.
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  await fixture.untilFailed(1500);
  await fixture.stopProducer();
  const rest = await postern([
    "failed",
    "replay",
    "--endpoint",
    "/it's",
    "--until",
    / --until (\S+)/.exec(line)?.[1] ?? "",
  ]);
  expect(rest.stdout.toString()).toBe(`replayed ${1500 - done} of ${1500 - done} calls\n`);
  expect(await fixture.calls.count({})).toBe(done);
  const audited = (await fixture.redis.xrange(keys.audit, "-", "+")).map(
    ([, fields]) => fields[fields.indexOf("call_id") + 1],
  );
  expect(audited.toSorted()).toEqual(ids.toSorted());
});

test("without Redis a command ends with 1 and one clear line, within seconds", async () => {
  const nowhere = cliOf("redis://:a-password@127.0.0.1:1");
  const runs = await Promise.all([
    nowhere(["failed", "list"]),
    nowhere(["failed", "replay", "--all"]),
    nowhere(["status"]),
  ]);
  for (const ran of runs) {
    expect(ran).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Redis at 127\.0\.0\.1:1 cannot be reached: .*\n$/),
    });
    expect(ran.ms).toBeLessThan(8000);
  }
});

test("a wrong configuration ends a command with 3", async () => {
  expect(await postern(["failed", "list", "--config-dir", "/nowhere"])).toMatchObject({ code: 3 });
});
