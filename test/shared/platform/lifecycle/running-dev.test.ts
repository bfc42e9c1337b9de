import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findRunningDev, publishRunningDev } from "../../../../shared/platform/lifecycle/running-dev.ts";
import { tempDir } from "../../../support/temp-dir.ts";

/** Returns the environment of a user in whose directory a dev has left this file. */
function leftBehind(content: string): NodeJS.ProcessEnv {
  const folder = tempDir();
  mkdirSync(join(folder, "postern"));
  writeFileSync(join(folder, "postern/dev.json"), content);
  return { XDG_RUNTIME_DIR: folder };
}

test("a running postern dev is found by its user in a file with mode 0600, in the runtime directory or else in the cache", () => {
  const config_dir = tempDir();
  const [folder, home] = [tempDir(), tempDir()];
  for (const env of [{ XDG_RUNTIME_DIR: folder, HOME: "/nowhere" }, { HOME: home }]) {
    expect(findRunningDev(env)).toBeUndefined();
    publishRunningDev(env, config_dir);
    expect(findRunningDev(env)).toEqual({ pid: process.pid, config_dir });
  }
  expect(readdirSync(join(folder, "postern"))).toEqual(["dev.json"]);
  const file = statSync(join(home, ".cache/postern/dev.json"));
  expect((file.mode & 0o777).toString(8)).toBe("600");
});

test("postern dev is not found if it has died, its configuration was deleted, or its file cannot be read", () => {
  const { pid: dead } = spawnSync(process.execPath, ["--version"]);
  const config_dir = tempDir();
  const left = [
    { pid: dead, config_dir },
    { pid: process.pid, config_dir: join(config_dir, "gone") },
    { pid: 0, config_dir },
  ];
  for (const each of left) expect(findRunningDev(leftBehind(JSON.stringify(each)))).toBeUndefined();
  expect(findRunningDev(leftBehind("{"))).toBeUndefined();
  expect(findRunningDev({})).toBeUndefined();
});

test("postern dev runs even if its user's directory is not writable", () => {
  const file = join(tempDir(), "file");
  writeFileSync(file, "");
  const env = { XDG_RUNTIME_DIR: file };
  publishRunningDev(env, tempDir());
  expect(findRunningDev(env)).toBeUndefined();
});
