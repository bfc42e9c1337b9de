import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { loaderPlugin } from "../../../services/dev/loader.mjs";
import { FROM_SOURCE } from "../../support/from-source.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** A program of two Lua files, the one of which stands in the other. */
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

test("an include stands for the text of its file, to the byte, in a process that runs the sources", () => {
  const { file } = writeProgram();
  const { stdout, stderr } = spawnSync(process.execPath, [...FROM_SOURCE, file], { encoding: "utf8" });
  expect({ stdout, stderr }).toEqual({ stdout: PRINTED, stderr: "" });
});

test("and in a bundle, which needs the files no more", async () => {
  const { file } = writeProgram();
  const bundle = await rolldown({ input: file, plugins: [loaderPlugin], platform: "node" });
  const { output } = await bundle.generate({ format: "esm" });
  const bundled = join(tempDir(), "bundled.mjs");
  writeFileSync(bundled, output[0].code);
  const { stdout, stderr } = spawnSync(process.execPath, [bundled], { encoding: "utf8" });
  expect({ stdout, stderr }).toEqual({ stdout: PRINTED, stderr: "" });
});

test("an include of a file that is not there ends the process, and names the file", () => {
  const { dir, file } = writeProgram();
  writeFileSync(join(dir, "two.lua"), '--@include "./gone.lua"\n');
  const { status, stderr } = spawnSync(process.execPath, [...FROM_SOURCE, file], { encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toContain("gone.lua");
});
