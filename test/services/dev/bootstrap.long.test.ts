import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, test } from "vitest";
import { entrySources } from "../../../services/dev/build.mjs";
import { OTHER_NODES } from "../../../services/dev/other-node.mjs";
import { tempDir } from "../../support/temp-dir.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SOURCE = "services/cli/main.ts";
const PAGE = "services/console-page";
/** The other programs and parts that the build makes. */
const OTHERS = entrySources(ROOT).filter((source) => source !== SOURCE);

/** A clone of the project whose program and page have only a few lines, so that the build is fast. */
let clone: string;
beforeEach(() => {
  clone = join(tempDir(), "clone");
  for (const file of ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json"])
    cpSync(join(ROOT, file), join(clone, file));
  for (const file of readdirSync(join(ROOT, "services/dev")).filter((name) => /\.(mjs|d\.ts)$/.test(name)))
    cpSync(join(ROOT, "services/dev", file), join(clone, "services/dev", file));
  cpSync(join(ROOT, PAGE, "vite.config.mjs"), join(clone, PAGE, "vite.config.mjs"));
  symlinkSync(join(ROOT, "node_modules"), join(clone, "node_modules"));
  mkdirSync(join(clone, "shared"));
  for (const file of [SOURCE, ...OTHERS]) mkdirSync(dirname(join(clone, file)), { recursive: true });
  mkdirSync(join(clone, "docs"));
  write(SOURCE, saying("first"));
  for (const file of OTHERS) write(file, "export {};\n");
  write(`${PAGE}/index.html`, '<script type="module" src="./main.ts"></script>');
  write(`${PAGE}/main.ts`, 'document.title = "page";');
});

const saying = (text: string) => `console.log("${text} in", process.cwd(), process.argv.slice(2).join());\n`;

function write(file: string, text: string): void {
  writeFileSync(join(clone, file), text);
}

/** Runs a script such as `npm run postern`. Returns its output, and whether it built. */
function run({ script = "postern", args = ["x"], from = clone } = {}) {
  const npm = ["run", "--silent", script, "--", ...args];
  const { stdout, stderr } = spawnSync("npm", npm, { cwd: from, encoding: "utf8" });
  return { says: stdout.trim(), builds: stderr.includes("Building") };
}

test("npm run postern builds once, and not again while the sources are the same", () => {
  const says = `first in ${clone} x`;
  expect([run(), run(), run()]).toEqual([
    { says, builds: true },
    { says, builds: false },
    { says, builds: false },
  ]);
});

test("a source with other content is built, even if its size and time are unchanged", () => {
  run();
  const { atime, mtime } = statSync(join(clone, SOURCE));
  write(SOURCE, saying("other"));
  utimesSync(join(clone, SOURCE), atime, mtime);
  expect(run()).toEqual({ says: `other in ${clone} x`, builds: true });
});

test("a source that a checkout restores is built again, although it was built before", () => {
  run();
  write(SOURCE, saying("other"));
  run();
  write(SOURCE, saying("first"));
  expect(run()).toEqual({ says: `first in ${clone} x`, builds: true });
});

test("a new source is built, and a new compiler or new settings cause a complete build", () => {
  run();
  for (const file of ["shared/new.ts", `${PAGE}/new.ts`]) {
    write(file, "export const added = 1;\n");
    expect([file, run().builds]).toEqual([file, true]);
  }
  for (const file of ["package-lock.json", "tsconfig.build.json"]) {
    write(file, `${readFileSync(join(clone, file), "utf8")}\n`);
    expect([file, run().builds]).toEqual([file, true]);
  }
  expect(run().builds).toBe(false);
});

test("the program runs the current Lua of its files, also that of an included file", () => {
  cpSync(join(ROOT, "services/dev/modules.d.ts"), join(clone, "services/dev/modules.d.ts"));
  write("shared/included.lua", "-- first\n");
  write("shared/script.lua", '--@include "./included.lua"\nreturn 1\n');
  write(SOURCE, 'import script from "../../shared/script.lua";\nconsole.log(script);\n');
  expect(run()).toEqual({ says: "-- first\nreturn 1", builds: true });
  expect(run().builds).toBe(false);
  write("shared/included.lua", "-- other\n");
  expect(run()).toEqual({ says: "-- other\nreturn 1", builds: true });
  write("shared/script.lua", "return 2\n");
  expect(run()).toEqual({ says: "return 2", builds: true });
});

test("files in dist from another build are not run, nor served as the operator's page", () => {
  run();
  write("dist/services/cli/main.js", 'console.log("stale");\n');
  expect(run()).toEqual({ says: `first in ${clone} x`, builds: true });
  write(`dist/${PAGE}/index.html`, "stale");
  expect(run().builds).toBe(true);
  expect(readFileSync(join(clone, `dist/${PAGE}/index.html`), "utf8")).toContain("<script");
});

test("npm run postern runs in the user's folder, so that relative paths begin there", () => {
  const from = join(clone, "docs");
  expect(run({ from, args: ["--config-dir", "mine"] }).says).toBe(`first in ${from} --config-dir,mine`);
});

test("npm run test:long first prepares a fresh clone, and passes its arguments to vitest", () => {
  mkdirSync(join(clone, "test"));
  write(
    "test/vitest.config.ts",
    'console.log(process.env.LONG_RUN, process.argv.slice(2).join(" "));\nprocess.exit();\n',
  );
  expect(run({ script: "test:long", args: ["-t", "x"] })).toEqual({
    says: "1 run -c test/vitest.config.ts -t x",
    builds: true,
  });
});

describe("npm run test:long without arguments", () => {
  /** Other releases than this one, which the other command tests. */
  const others = Object.keys(OTHER_NODES).filter(
    (release) => release !== process.versions.node.split(".")[0],
  );

  beforeEach(() => {
    const packages = join(clone, "node_modules");
    rmSync(packages);
    mkdirSync(packages);
    for (const name of readdirSync(join(ROOT, "node_modules")))
      if (name !== ".cache") symlinkSync(join(ROOT, "node_modules", name), join(packages, name));
    mkdirSync(join(clone, "test"));
    write("test/vitest.config.ts", 'console.log("every test");\nprocess.exit();\n');
  });

  /** Replaces an installed Node by a program that prints its command. */
  function install(release: string, exit = 0): void {
    const name = `node-${process.platform}-${process.arch}`;
    const bin = join(".cache/node", OTHER_NODES[release] ?? "", "node_modules", name, "bin");
    mkdirSync(join(clone, bin), { recursive: true });
    const script = `#!/bin/sh\necho "${release} runs $(basename "$1") $2"\nexit ${exit}\n`;
    writeFileSync(join(clone, bin, "node"), script, { mode: 0o755 });
  }

  function testLong(env: NodeJS.ProcessEnv = {}) {
    const options = {
      cwd: clone,
      encoding: "utf8",
      env: { ...process.env, CI: "", POSTERN_NO_INSTALL: "1", ...env },
    } as const;
    const { stdout, stderr, status } = spawnSync("npm", ["run", "--silent", "test:long"], options);
    return { says: stdout.trim().split("\n"), lastLines: stderr.trim().split("\n"), status };
  }

  test("runs npm test on each other release, and then every test on this one", () => {
    for (const release of others) install(release);
    expect(testLong()).toMatchObject({
      says: [...others.map((release) => `${release} runs npm test`), "every test"],
      status: 0,
    });
  });

  test("fails if npm test fails on another release", () => {
    for (const release of others) install(release, 7);
    expect(testLong()).toMatchObject({ says: [`${others[0]} runs npm test`], status: 7 });
  });

  test("names a release that cannot be installed in its last lines, with the command that tests it", () => {
    const { says, lastLines, status } = testLong();
    expect([says, status]).toEqual([["every test"], 0]);
    expect(lastLines.slice(-others.length)).toEqual(
      others.map((release) =>
        expect.stringContaining(`env -u POSTERN_NO_INSTALL npm run test:node -- ${release} npm test`),
      ),
    );
  });

  test("skips no release with CI=true", () => {
    expect(testLong({ CI: "true" })).toMatchObject({ says: [""], status: 1 });
  });
});
