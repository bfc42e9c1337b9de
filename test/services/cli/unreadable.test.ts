import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { builtEntry } from "../../../shared/dev/process.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere } from "./run-here.ts";

const PROGRAM = [process.execPath, ...builtEntry("services/cli/main.js")];

/** Runs config check as a user whom file permissions restrict, because root may read everything. */
function checkConfig(dir: string, env = "") {
  const command = `${env} exec ${PROGRAM.join(" ")} config check --config-dir ${dir}`;
  const unbound = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const { status, stderr } = spawnSync("sh", ["-c", command], { ...unbound, encoding: "utf8", cwd: "/" });
  return { status, stderr };
}

onlyInLongRun(() => {
  test("a configuration directory with unreadable files is refused, and does not count as empty", () => {
    const dir = tempDir();
    writeFileSync(join(dir, "postern.toml"), "drain_secs = 1\n");
    chmodSync(dir, 0o744);
    if (process.getuid?.() !== 0) chmodSync(dir, 0o444);
    const { status, stderr } = checkConfig(dir);
    chmodSync(dir, 0o755);
    expect([status, stderr]).toEqual([
      3,
      expect.stringContaining(`${dir}/postern.toml: cannot be read (EACCES`),
    ]);
  });
});

test("a variable of the environment that is not UTF-8 is refused, as a secret and as one of the program's own", async () => {
  const dir = tempDir();
  chmodSync(dir, 0o755);
  writeFileSync(join(dir, "postern.toml"), '[runner]\nsecret = "env:OWN_SECRET"\n');
  const secret = checkConfig(dir, `export OWN_SECRET="$(printf 'caf\\351 of our own 0123456789')";`);
  expect([secret.status, secret.stderr]).toEqual([
    3,
    expect.stringMatching(/runner\.secret: contains U\+FFFD/),
  ]);
  const here = (env: NodeJS.ProcessEnv) => runHere(["config", "check", "--config-dir", dir], env);
  expect(
    await here({ OWN_SECRET: "0123456789abcdef0123", POSTERN_OPERATOR_TOKEN: "caf\ufffd of our own" }),
  ).toMatchObject({ code: 3, stderr: expect.stringMatching(/^POSTERN_OPERATOR_TOKEN: contains U\+FFFD/) });
  expect(await here({ OWN_SECRET: "caf\u00e9 of our own 0123456789" })).toMatchObject({
    code: 0,
    stderr: "",
  });
});

onlyInLongRun(() => {
  test("a body argument that is not UTF-8 is refused, with the advice to use a file", () => {
    const line = `${PROGRAM.join(" ")} send /a --preset github --secret 0123456789abcdef --gateway http://127.0.0.1:1 --dry-run --body`;
    expect(() => execFileSync("sh", ["-c", `${line} "$(printf 'caf\\351')"`], { stdio: "pipe" })).toThrow(
      /the body contains U\+FFFD.*pass its bytes in a file/,
    );
  });
});
