import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { loaderPlugin } from "../../../services/dev/loader.mjs";
import { FROM_SOURCE } from "../../support/from-source.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** Writes a program with two Lua files, one of which includes the other. */
function writeProgram(): { dir: string; file: string } {
  const dir = tempDir();
  mkdirSync(join(dir, "inner"));
  writeFileSync(join(dir, "inner/one.lua"), 'local one = "\'`$1\\\\"\n');
  writeFileSync(join(dir, "two.lua"), '-- first\n  --@include "./inner/one.lua"\nreturn one\n');
  const file = join(dir, "program.mts");
  writeFileSync(
    file,
    'import two from "./two.lua";\nconst text: string = two;\nprocess.stdout.write(text);\n',
  );
  return { dir, file };
}

const PRINTED = '-- first\nlocal one = "\'`$1\\\\"\nreturn one\n';

test("an include is replaced by the exact text of its file in a process that runs the sources", () => {
  const { file } = writeProgram();
  const { stdout, stderr } = spawnSync(process.execPath, [...FROM_SOURCE, file], { encoding: "utf8" });
  expect({ stdout, stderr }).toEqual({ stdout: PRINTED, stderr: "" });
});

test("an include is replaced in a bundle, which no longer needs the files", async () => {
  const { file } = writeProgram();
  const bundle = await rolldown({ input: file, plugins: [loaderPlugin], platform: "node" });
  const { output } = await bundle.generate({ format: "esm" });
  const bundled = join(tempDir(), "bundled.mjs");
  writeFileSync(bundled, output[0].code);
  const { stdout, stderr } = spawnSync(process.execPath, [bundled], { encoding: "utf8" });
  expect({ stdout, stderr }).toEqual({ stdout: PRINTED, stderr: "" });
});

onlyInLongRun(() => {
  test("an include of a missing file ends the process, and the message names the file", () => {
    const { dir, file } = writeProgram();
    writeFileSync(join(dir, "two.lua"), '--@include "./gone.lua"\n');
    const { status, stderr } = spawnSync(process.execPath, [...FROM_SOURCE, file], { encoding: "utf8" });
    expect(status).toBe(1);
    expect(stderr).toContain("gone.lua");
  });
});
