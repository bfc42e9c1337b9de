import { spawnSync } from "node:child_process";
import { chmodSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { tempDir } from "./temp-dir.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const CONFIG = `
  import { SkippedTests } from "${ROOT}test/support/skipped-tests.ts";
  export default { test: { reporters: ["default", new SkippedTests()] } };`;

const TESTS = `
  import { beforeAll, describe, test } from "vitest";
  import { needs } from "${ROOT}test/support/needs.ts";
  const fails = () => { throw new Error("a skipped test starts nothing"); };
  describe("the page", needs("chromium"), () => {
    beforeAll(fails);
    test("shows calls", fails);
    describe("of payments", () => test.each([1, 2])("shows payment %i", fails));
  });
  test("is built", { timeout: 1000, ...needs("docker") }, fails);
  test("is bought", ({ skip }) => skip("The registry does not have it."));
  test.skip("was forgotten", fails);
  test("passes", () => {});`;

/** Runs a project with a few tests with vitest, on a machine that has apt-get but none of the programs. */
function run(env: Record<string, string>, ...args: string[]) {
  const dir = tempDir();
  symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
  writeFileSync(join(dir, "vitest.config.ts"), CONFIG);
  writeFileSync(join(dir, "some.test.ts"), TESTS);
  const bin = tempDir();
  writeFileSync(join(bin, "apt-get"), "#!/bin/sh\n");
  chmodSync(join(bin, "apt-get"), 0o755);
  const program = join(ROOT, "node_modules/vitest/vitest.mjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, "run", "--root", dir, ...args], {
    env: { PATH: bin, HOME: dir, CI: "", ...env },
    cwd: dir,
    encoding: "utf8",
  });
  const [, last = ""] = stripVTControlCharacters(stdout).split(/^ +Duration .*$/m);
  return { status, last: last.trim(), stderr: stripVTControlCharacters(stderr) };
}

const DECLARED = `\
Skipped: 3. No usable chromium. Install it and run this again: sudo apt-get install -y chromium
  some.test.ts > the page > shows calls
  some.test.ts > the page > of payments > shows payment 1
  some.test.ts > the page > of payments > shows payment 2

Skipped: 1. No usable docker. Install it and run this again: start the Docker daemon; https://docs.docker.com/engine/install installs it
  some.test.ts > is built`;

test("the last lines of a run name every skipped test and the command that enables it", () => {
  const { status, last } = run({});
  expect(last).toBe(`${DECLARED}

Skipped: 1. The registry does not have it.
  some.test.ts > is bought

Skipped: 1. No reason is declared.
  some.test.ts > was forgotten`);
  expect(status).toBe(0);
});

test("tests that -t does not select are not named as skipped", () => {
  expect(run({}, "-t", "passes")).toMatchObject({ status: 0, last: DECLARED });
});

test("with CI=true a missing program is an error that says what to install", () => {
  const { status, stderr } = run({ CI: "true" });
  expect(stderr).toContain("CI skips no test. No usable chromium.");
  expect(status).toBe(1);
});
