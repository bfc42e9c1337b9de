import { join } from "node:path";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { writeConfig } from "../../../../shared/config/config-tables.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { TOKENS, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";
import { delayCalls } from "../../../support/delay-calls.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../../support/long-run.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { auditOf } from "../../console/audit-of.ts";
import { configureRefunds, refundable } from "../../console/refundable.ts";
import { useRejections } from "../../console/rejections.ts";
import { runHere } from "../run-here.ts";

const payments = usePayments();
const { redis, postern } = payments;
useRejections(redis);
const calls = useFailedCalls({ redis, fresh: "file" });
const fixture = useOperator({ redis });
let url: string;

beforeAll(() => calls.stopProducer());
beforeEach(async () => {
  configureRefunds(payments);
  url = `http://${(await fixture.start({ configDir: postern.configDir })).address}`;
});

const here = (...args: string[]) => runHere([...args, "--config-dir", postern.configDir]);
/** Runs a command through the console, without a configuration and so without Redis. */
const runThroughConsole = (...args: string[]) =>
  runHere([...args, "--config-dir", "/nowhere", "--operator", url], {
    POSTERN_OPERATOR_TOKEN: TOKENS.operator,
  });

/** Runs a command both ways and returns both outputs. Ages may differ. */
async function both(
  ...args: string[]
): Promise<{ code: number | undefined; stdout: string; stderr: string }> {
  const [one, other] = [await here(...args), await runThroughConsole(...args)];
  // Ages and the position of the chain are replaced.
  const withoutAges = (text: string) =>
    text
      .replace(/\(\w+ ago\)|(?<=Z) +(\d+[dhms])+(?= )|(?<= ) {2,}(?=\w)/g, "")
      .replace(/"(oldest_age_ms|to_block)":"?\d+"?/g, "")
      // A bulk operation has its own id, operator and time.
      .replace(/"(id":"run_|by":|selection":"--until |begun_at":|ended_at":)[^,]*/g, "")
      .replace(/ +\d+s +|(?<=blocks \d+ to )\d+/g, " ");
  expect([args, other.code, withoutAges(other.stdout), other.stderr]).toEqual([
    ...[args, one.code, withoutAges(one.stdout), one.stderr],
  ]);
  return one;
}

test("postern status prints the same through the console as from Redis", async () => {
  await calls.fail([{ path: "/a" }]);
  const read = async (ran: Promise<{ stdout: string }>) => {
    const { at: _, ...status } = JSON.parse(
      (await ran).stdout.replace(/"((?:oldest_age|silent)_ms|used_memory_bytes)":\d+/g, '"$1":0'),
    );
    return status;
  };
  const status = await read(here("status", "-o", "json"));
  expect(await read(runThroughConsole("status", "-o", "json"))).toEqual(status);
  expect(status).toMatchObject({
    queues: [{ origin: "webhook", failed: 1 }, {}, {}],
    redis: { proof: "always" },
  });
  expect((await runThroughConsole("status")).stdout).toMatch(/^webhook +0 +0 +0 +0 +1 /m);
});

/** Command lines that show something: one of each command, and variants of these. */
function shownBy({
  failed,
  waiting,
  settling,
  review,
}: Record<"failed" | "waiting" | "settling" | "review", string>) {
  const unknown = `c_${"0".repeat(32)}`;
  const each: string[][] = [
    ["calls", "list"],
    ["payments", "show", review],
    ["failed", "show", failed],
    ["rejected", "list"],
    ["refunds", "list"],
    ["payments", "audit", "--from-block", "1"],
    ["calls", "show", failed],
    ["calls", "show", waiting, "--body-only"],
    ["failed", "list"],
    ["failed", "replay", "--all", "--dry-run"],
    ["failed", "discard", "--all", "--dry-run", "--reason", "x"],
    ["jobs", "list"],
    ["rejected", "show", "r_0000"],
    ["payments", "list"],
    ["refunds", "check"],
    ["payments", "list-spent"],
    ["calls", "run-now", waiting],
    ["jobs", "run-delayed", "7/1", "7/9"],
    ["payments", "resolve", "--acknowledged", settling, "--reason", "x"],
  ];
  const variants: string[][] = [
    ["calls", "list", "--endpoint", "/a"],
    ["calls", "list", "--limit", "1"],
    ...[waiting, settling, review, unknown].map((id) => ["calls", "show", id]),
    ["calls", "show", waiting, "--result-only"],
    ["failed", "list", "--call", failed, "--call", waiting],
    ["failed", "list", "--code", "runner.failed"],
    ["failed", "show", waiting],
    ["failed", "show", failed, "--body-only"],
    ["failed", "replay", waiting, "--dry-run"],
    ["rejected", "list", "--unknown"],
    ["payments", "list", "--state", "review"],
    ["payments", "list", "--open"],
    ...[settling, unknown].map((id) => ["payments", "show", id]),
    ["calls", "run-now", unknown],
    ["payments", "resolve", "--acknowledged", "--all", "--reason", "x"],
    ["payments", "audit", "--from-block", "2", "--to-block", "1"],
    ["payments", "audit", "--from-block", "1", "--network", "eip155:1"],
  ];
  return { each, variants };
}

test("commands that show something print the same through the console as from Redis, as text and as JSON", async () => {
  const [failed = ""] = await calls.fail([{ path: "/a", body: Buffer.from("hello") }]);
  const waiting = await calls.add({ path: "/b" });
  const [settling, review] = [await payments.claim(), await payments.claimForReview()];
  const { each, variants } = shownBy({ failed, waiting, settling, review });
  const shown = LONG_RUN ? [...each, ...variants] : each;
  for (const args of shown) {
    const ran = await both(...args);
    expect(ran.stdout + ran.stderr).not.toBe("");
  }
  const asJson = shown.filter((args) => !args.includes("--body-only") && !args.includes("--result-only"));
  for (const args of sample(asJson, 6)) await both(...args, "-o", "json");
}, 120_000);

test("commands that change something also work through the console, under the name of the token", async () => {
  const ids = await calls.fail([{}, {}, {}]);
  const [one = "", two = "", three = ""] = ids;
  for (let i = 0; i < 2; i += 1) await calls.add();
  const [delayed = ""] = await delayCalls(redis.partition);
  const review = await payments.claimForReview();
  const [refund = ""] = await refundable(payments);
  const [disputed, another] = [await payments.buy(), await payments.buy()];
  for (const id of [disputed, another])
    await payments.gateway.journal.markDisputed(id, "the chain says: expired");
  const done: string[][] = [
    ["calls", "run-now", delayed],
    ["jobs", "run-delayed", "7/1"],
    ["payments", "resolve", disputed, "--acknowledged", "--reason", "x"],
    ["payments", "resolve", "--acknowledged", "--all", "--reason", "x"],
    ["failed", "replay", one],
    ["failed", "discard", two, "--yes", "--reason", "x"],
    ["calls", "forget", three, "--yes", "--reason", "x"],
    ["jobs", "pause", "7/1", "callback/receiver.example.com", "--reason", "x"],
    ["jobs", "resume", "7/1", "callback/receiver.example.com"],
    ["payments", "resolve", review, "--void", "--reason", "x"],
    ["refunds", "export", refund, "-o", "csv", "--reason", "x"],
  ];
  for (const args of done) {
    const ran = await runThroughConsole(...args);
    expect([args, ran.code, ran.stdout]).toEqual([args, 0, expect.stringMatching(/./)]);
  }
  const audited = await auditOf(redis);
  expect(audited.map(({ action, by }) => [action, by])).toEqual(
    [
      ...["run_now", "run_delayed", "acknowledge", "begin_acknowledge", "acknowledge"],
      ...["begin_replay", "replay", "begin_discard", "discard", "forget", "pause", "pause", "resume"],
      ...["resume", "void", "refund"],
    ].map((action) => [action, "otto"]),
  );
  expect(await redis.client.zcard(keys.refundsPending)).toBe(1);
  const again = await runThroughConsole("failed", "replay", two);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("is not a failed call")]);
  expect(await runThroughConsole("payments", "reconcile", review)).toMatchObject({
    ...{ code: 0, stdout: expect.stringContaining("it has ended, so there is nothing to check") },
  });
}, 120_000);

test("with a wrong token, a viewer's token or an unreachable console, a command exits with 1 and explains the problem", async () => {
  const pause = (token: string | undefined, at = url, dir = "/nowhere") =>
    runHere(["jobs", "pause", "7/1", "--reason", "x", "--config-dir", dir, "--operator", at], {
      ...(token !== undefined && { POSTERN_OPERATOR_TOKEN: token }),
    });
  const advice = "set POSTERN_OPERATOR_TOKEN to a token from [[tokens]] in the console's operator.toml\n";
  expect(await pause("not-a-token-of-anybody")).toMatchObject({
    ...{ code: 1, stderr: `unknown token, from POSTERN_OPERATOR_TOKEN: ${advice}` },
  });
  expect(await pause(undefined)).toMatchObject({
    ...{ code: 1, stderr: `a token or a valid session is required: ${advice}` },
  });
  const dir = tempDir();
  const other = { name: "other", role: "operator", token: "not-a-token-of-anybody" };
  writeConfig(dir, { operator: { tokens: [other] } });
  const ofFile = await pause(undefined, url, dir);
  expect([ofFile.code, ofFile.stderr]).toEqual([
    1,
    `unknown token, from ${join(dir, "operator.toml")}: ${advice}`,
  ]);
  expect(await pause(TOKENS.viewer)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("is a viewer"),
  });
  const away = await pause(TOKENS.operator, "http://127.0.0.1:1");
  expect(away.stderr).toMatch(/^the console at http:\/\/127\.0\.0\.1:1 does not answer: /);
  const gateway = await pause(TOKENS.operator, `http://${payments.gateway.address}`);
  expect([gateway.code, gateway.stderr]).toEqual([1, expect.stringMatching(/./)]);
  for (const { stdout, stderr } of [away, gateway]) expect(stdout + stderr).not.toContain(TOKENS.operator);
});

test("through the console, too, a bulk operation keeps its end of the time range, and skips calls that fail meanwhile", async () => {
  const [before = ""] = await calls.fail([{}]);
  const until = new Date().toISOString();
  await eventually("the next millisecond", () => Date.now() > Date.parse(until));
  const [after = ""] = await calls.fail([{}]);
  const ran = await runThroughConsole("failed", "discard", "--until", until, "--yes", "--reason", "x");
  expect(ran.code).toBe(0);
  const left: string[] = [];
  for await (const { id } of calls.calls.matching({})) left.push(id);
  expect(left).toContain(after);
  expect(left).not.toContain(before);
});

onlyInLongRun(() => {
  test("a command continues to follow its bulk operation after the console is restarted", async () => {
    await calls.fail(Array.from({ length: 60 }, () => ({})));
    const first = await fixture.start({ configDir: postern.configDir });
    const [{ address }, at] = [first, `http://${first.address}`];
    const env = { POSTERN_OPERATOR_TOKEN: TOKENS.operator };
    const command = [
      "failed",
      "discard",
      "--all",
      "--concurrency",
      "1",
      "--yes",
      "--reason",
      "x",
      "-o",
      "json",
    ];
    const ran = runHere([...command, "--config-dir", "/nowhere", "--operator", at], env);
    await eventually("the run is under way", async () => {
      const { runs } = (await first.get("/api/v1/bulk?kind=discard")).json() as {
        runs: { done: number; dry_run: boolean }[];
      };
      return runs.some(({ done, dry_run }) => done > 0 && !dry_run);
    });
    await first.close();
    await fixture.start({ configDir: postern.configDir, address });
    expect((await ran).code).toBe(0);
    for await (const { id } of calls.calls.matching({})) throw new Error(`${id} is left`);
  });
});
