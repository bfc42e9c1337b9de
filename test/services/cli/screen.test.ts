import { stripVTControlCharacters } from "node:util";
import stringWidth from "string-width";
import { beforeEach, describe, expect, test } from "vitest";
import { createTerminal } from "../../../services/cli/terminal.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, keys } from "../../fixtures/redis.ts";
import { useScreen } from "../../fixtures/screen.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { needs } from "../../support/needs.ts";
import { runHereWith } from "./run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);
const runOnScreen = useScreen(postern);

/** Characters that a terminal obeys instead of showing, except line ends. */
const CONTROL = /(?!\n)\p{Cc}/u;
const DETAIL =
  "the amount is not a number 金額が数字ではありません, and so nothing was booked: try again with digits";

let ids: string[];
beforeEach(async () => {
  ids = await fixture.fail([{ path: "/a" }, { path: `/${"long-".repeat(12)}path` }]);
  for (const id of ids) {
    const problem = JSON.stringify({
      type: "urn:x:amount",
      title: "Bad amount",
      status: 422,
      detail: `\x1b[2J${DETAIL}`,
    });
    const hostile = `runner.refused: 422 ${problem}\x1b]0;owned\x07\x9b31m`;
    await fixture.redis.client.hset(keys.inQueue("webhook/7/1", id), "failedReason", hostile);
  }
});

test.each(sample([50, 80, 120, 200]))(
  "on a screen of %i columns no line of `failed list` is wider, each id is complete, and no escape sequence remains",
  async (columns) => {
    const { code, stdout } = await here(["failed", "list"], {}, { columns });
    expect(code).toBe(0);
    expect(stdout).not.toMatch(CONTROL);
    for (const line of stdout.split("\n")) expect([line, stringWidth(line) <= columns]).toEqual([line, true]);
    for (const id of ids) expect(stdout).toContain(id);
    expect(stdout).toContain("2 failed calls");
  },
);

test("every table without rows fits a screen of 60 columns", async () => {
  for (const line of ["status", "jobs list", "rejected list", "payments list", "refunds list"]) {
    const { code, stdout } = await here(line.split(" "), {}, { columns: 60 });
    expect([line, code]).toEqual([line, 0]);
    for (const row of stdout.split("\n"))
      if (!row.startsWith("redis: ")) expect([line, row, row.length <= 60]).toEqual([line, row, true]);
  }
});

test("a body that would control the terminal is not printed to a terminal, but to other outputs", async () => {
  const [id = ""] = await fixture.fail([{ body: Buffer.from("a\x1b[31mb"), path: "/escape" }]);
  const args = ["failed", "show", id, "--body-only"];
  const refused = await here(args, {}, { columns: 80 });
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("redirect it to a file") });
  expect(refused.stdout).toBe("");
  expect((await here(args)).stdout).toBe("a\x1b[31mb");
});

describe("on a real screen", needs("script"), () => {
  onlyInLongRun(() => {
    test("the width is that of the screen, unless COLUMNS sets it", async () => {
      const widest = async (env: NodeJS.ProcessEnv) => {
        const { shown } = await runOnScreen(["failed", "list"], {
          columns: 100,
          env: { ...env, NO_COLOR: "1" },
        });
        expect(shown).not.toContain("\x1b");
        return Math.max(...shown.split("\n").map((line) => stringWidth(line)));
      };
      expect(await Promise.all([widest({}), widest({ COLUMNS: "60" })])).toEqual([100, 60]);
    });

    test("words for outcomes have colours, and nothing else changes", async () => {
      const coloured = await runOnScreen(["failed", "list"], { columns: 120 });
      expect(coloured.shown).toContain("\x1b[31mrunner.refused\x1b[39m");
      const { stdout: plain } = await here(["failed", "list"], {}, { columns: 120 });
      const ageless = (text: string) => text.replaceAll(/Z +\d+s /g, "Z ");
      expect(ageless(stripVTControlCharacters(coloured.shown))).toBe(ageless(plain));
    });
  });

  test("a replay draws a bar that redraws its line and then one line with the outcome, without log lines", async () => {
    await fixture.fail(Array.from({ length: 5 }, () => ({ path: "/bar" })));
    const ran = await runOnScreen(["failed", "replay", "--endpoint", "/bar"], {
      columns: 80,
      env: { NO_COLOR: "1" },
    });
    expect(ran.code).toBe(0);
    expect(ran.shown.replaceAll("\r\x1b[K", "|")).toMatch(
      /\|\[#{30}\] 100 % 5\/5 \d+\/s\|replayed 5 calls\n$/,
    );
    expect(ran.shown).not.toContain('"event"');
  });
});

test("in a pipe nothing is cut or coloured, and the detail of a problem document is printed", async () => {
  const { stdout } = await postern.run(["failed", "list", "--endpoint", "/a"], { env: { COLUMNS: "60" } });
  expect(stdout).toContain(`  runner.refused  422  [2J${DETAIL}\n`);
  expect(stdout).not.toContain('{"type"');
  expect(stdout).not.toMatch(CONTROL);
});

onlyInLongRun(() => {
  test("FORCE_COLOR also colours a pipe", async () => {
    const env = { FORCE_COLOR: "1" };
    const { stdout } = await postern.run(["failed", "list", "--endpoint", "/a"], { env });
    expect(stdout).toContain("\x1b[31m");
  });
});

test.each([
  [{ FORCE_COLOR: "0" }, false],
  [{ FORCE_COLOR: "false" }, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true],
  [{ NO_COLOR: "1" }, false],
  [{ TERM: "dumb" }, false],
  [{ NO_COLOR: "", FORCE_COLOR: "" }, true],
])("whether a screen has colours with the variables %j is %s", (env, colours) => {
  const screen = { isTTY: true } as NodeJS.WriteStream;
  const terminal = createTerminal({ stdin: process.stdin, stdout: screen, stderr: screen, env });
  expect(terminal.colours).toEqual({ stdout: colours, stderr: colours });
});

test("JSON has control characters of strangers as escapes, which no terminal obeys", async () => {
  const { stdout } = await here(["failed", "list", "--endpoint", "/a", "-o", "json"]);
  expect(stdout).not.toMatch(CONTROL);
  expect(JSON.parse(stdout)).toMatchObject({ reason: expect.stringContaining("\x1b]0;owned\x07\x9b31m") });
});

onlyInLongRun(() => {
  test("a long replay in a pipe prints only its tenths and its outcome", async () => {
    await fixture.fail(Array.from({ length: 120 }, () => ({ path: "/long" })));
    const ran = await here(["failed", "replay", "--endpoint", "/long"]);
    expect(ran.stdout).toBe("replayed 120 calls\n");
    // A fast console may be done before the first poll.
    expect(ran.stderr).toMatch(/^(replayed \d+ of 120 calls \([1-9]0 %\)\n){0,9}$/);
  });

  test("a long replay with --quiet prints nothing, and its exit code shows the outcome", async () => {
    await fixture.fail(Array.from({ length: 120 }, () => ({ path: "/quiet" })));
    const quiet = await here(["failed", "replay", "--endpoint", "/quiet", "--quiet"]);
    expect(quiet).toMatchObject({ code: 0, stdout: "", stderr: "" });
  });
});
