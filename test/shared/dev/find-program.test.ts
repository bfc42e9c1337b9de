import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findProgram, installPackages } from "../../../shared/dev/find-program.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** A machine whose apt-get knows no package named `unknown`, and whose sudo asks for no password. */
function machine() {
  const bin = tempDir();
  const asked = join(bin, "asked");
  const scripts = {
    sudo: 'shift; "$@"',
    "apt-get": `echo "$@" >> ${asked}
      case "$*" in *unknown*) exit 100;; install*) for name; do :; done; /bin/cp "$0" ${bin}/"$name";; esac`,
  };
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return { bin, asked: () => (existsSync(asked) ? readFileSync(asked, "utf8").trim().split("\n") : []) };
}

test("packages are installed after one update, and one that does not exist keeps no other away", () => {
  const { bin, asked } = machine();
  installPackages(["unknown", "nginx"], { PATH: bin });
  expect(asked()).toEqual(["update -qq", "install -y -qq unknown", "install -y -qq nginx"]);
  expect(findProgram(["nginx"], { PATH: bin })).toBe(join(bin, "nginx"));
});

test("nothing is installed with POSTERN_NO_INSTALL, nor if nothing is missing", () => {
  const { bin, asked } = machine();
  installPackages(["nginx"], { PATH: bin, POSTERN_NO_INSTALL: "1" });
  installPackages([], { PATH: bin });
  expect(asked()).toEqual([]);
});

test("a machine without apt-get installs nothing, and does not fail", () => {
  const env = { PATH: tempDir() };
  installPackages(["nginx"], env);
  expect(findProgram(["nginx"], env)).toBeUndefined();
});
