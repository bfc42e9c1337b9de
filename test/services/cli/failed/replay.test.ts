import { expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser, keys } from "../../../fixtures/redis.ts";
import { LONG_RUN } from "../../../support/long-run.ts";
import { interruptingAt, runHereWith } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

const DAY_MS = 86_400_000;

test("postern failed replay returns the matching calls to the queue, and with --dry-run counts them by code and changes nothing", async () => {
  await fixture.fail([{}, {}]);
  await fixture.fail([{}], "runner.failed");
  const dry = await here(["failed", "replay", "--all", "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, stderr: "" });
  expect(dry.stdout).toMatch(/^3 calls would be replayed\n {2}runner\.(refused {2}2|failed {2}1)\n/);
  expect(await fixture.calls.count({})).toBe(3);
  const some = await here(["failed", "replay", "--code", "runner.refused"]);
  expect(some).toMatchObject({ code: 0 });
  expect(some.stdout).toBe("replayed 2 calls\n");
  const [begun, entry] = await fixture.redis.client.xrange(keys.audit("acts"), "-", "+");
  const how = /by \S+@\S+ selection --code runner\.refused --until \S+Z/;
  expect(begun?.[1].join(" ")).toMatch(/ action begin_replay run run_\w+ by /);
  for (const line of [begun, entry]) expect(line?.[1].join(" ")).toMatch(how);
  expect(await here(["failed", "replay", "--all"])).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(0);
});

test("postern failed replay skips a call that is older than the runner's memory of keys, unless --force is set", async () => {
  const [old = "", young = ""] = await fixture.fail([{ acceptedAt: Date.now() - 31 * DAY_MS }, {}]);
  const ran = await here(["failed", "replay", "--all"]);
  expect(ran.code).toBe(1);
  expect(ran.stdout).toBe("replayed 1 of 2 calls\n");
  expect(ran.stderr).toContain(
    "1 call needs --force: it was accepted more than runner.memory_secs ago, so the runner may have forgotten it and may run it twice",
  );
  expect(ran.stderr).toContain(`\n  ${old}\n`);
  expect(await fixture.calls.find(young)).toBeUndefined();
  const forced = await here(["failed", "replay", old, "--force", "-o", "json"]);
  expect(forced.code).toBe(0);
  expect(jsonLines(forced)[0]).toMatchObject({
    kind: "replay",
    matched: 1,
    done: 1,
    needs_force: [],
    missing: [],
  });
});

test("postern failed replay exits with 1 for a named call that has not failed, and replays the others", async () => {
  const [id = ""] = await fixture.fail([{}]);
  const unknown = `c_${"0".repeat(32)}`;
  const ran = await here(["failed", "replay", unknown, "--call", id]);
  expect(ran.code).toBe(1);
  expect(ran.stdout).toBe("replayed 1 call\n");
  expect(ran.stderr).toContain(`${unknown} is unknown: there was no such call, or it is no longer kept`);
});

test("postern failed replay after Ctrl-C says what is done, and prints a command that does exactly the rest", async () => {
  const CALLS = LONG_RUN ? 1500 : 200;
  const ids = await fixture.fail(Array.from({ length: CALLS }, () => ({ path: "/it's" })));
  const one = ["failed", "replay", "--endpoint", "/it's", "--concurrency", "1"];
  const at = /replayed \d+ of /;
  const first = await (LONG_RUN
    ? postern.run(one, { interruptAt: at })
    : here(one, {}, {}, interruptingAt(at)));
  expect(first.code).toBe(1);
  const done = Number(new RegExp(`^replayed (\\d+) of ${CALLS} calls\\n$`).exec(first.stdout)?.[1]);
  expect(done).toBeGreaterThan(0);
  expect(done).toBeLessThan(CALLS);
  expect(await fixture.calls.count({})).toBe(CALLS - done);
  const line = first.stderr.trimEnd().split("\n").at(-1) ?? "";
  expect(line).toMatch(
    /^ {2}postern failed replay --endpoint '\/it'\\''s' --until \S+Z --concurrency 1 --config-dir \S+$/,
  );
  // The replayed calls fail again. They failed after the first run began, so they are not part of the rest.
  fixture.runnerAnswers("runner.refused");
  await fixture.startProducer();
  await fixture.untilFailed(CALLS);
  await fixture.stopProducer();
  const until = / --until (\S+)/.exec(line)?.[1] ?? "";
  const rest = await here(["failed", "replay", "--endpoint", "/it's", "--until", until]);
  expect(rest.stdout).toBe(`replayed ${CALLS - done} calls\n`);
  expect(await fixture.calls.count({})).toBe(done);
  const replayed = (await fixture.audited()).filter(({ action }) => action === "replay");
  expect(replayed.map(({ call_id: id }) => id).toSorted()).toEqual(ids.toSorted());
});
