import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { completionScript, type Shell } from "../../../../services/cli/completion/scripts.ts";
import { buildProgram } from "../../../../services/cli/program.ts";
import type { Surroundings } from "../../../../services/cli/program-deps.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { needs, pathOf } from "../../../support/needs.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { runHere } from "../run-here.ts";

/** Words of a command line, and the possible completions of the last one. */
const LINES: readonly [words: string[], completed: string[]][] = [
  [["fa"], ["failed"]],
  [
    ["calls", ""],
    ["--help", "forget", "list", "replay", "run-now", "show"],
  ],
  [["calls", "list", "--st"], ["--state"]],
  [["calls", "list", "--state", "ac"], ["active"]],
  [["--operator", "http://x", "jobs", "re"], ["resume"]],
  [
    ["calls", "list", "--job", "7/1", "-o", ""],
    ["json", "name", "wide"],
  ],
  [["redis-acl", "pri"], ["pricing"]],
  [["completion", "f"], ["fish"]],
  [["failed", "replay", "c_4f1b", "--dr"], ["--dry-run"]],
  [["calls", "list", "--job", ""], []],
];

const program = buildProgram({ version: "0", env: {} } as Surroundings);

/** Writes a file with the script for a shell, followed by these lines. */
function scriptWith(shell: Shell, lines: string): string {
  const file = join(tempDir(), "script");
  writeFileSync(file, `${completionScript(shell, program)}\n${lines}\n`);
  return file;
}

function completedBy(path: string, file: string, words: readonly string[]): string[] {
  const { stdout, stderr } = spawnSync(path, [file, ...words], { encoding: "utf8" });
  expect([words, stderr]).toEqual([words, ""]);
  return stdout.split("\n").filter((line) => line !== "");
}

test("bash completes commands, options and their values", () => {
  const ask = `COMP_WORDS=(postern "$@"); COMP_CWORD=$#; _postern; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const file = scriptWith("bash", ask);
  for (const [words, completed] of LINES)
    expect([words, completedBy("bash", file, words).sort()]).toEqual([words, completed]);
});

onlyInLongRun(() => {
  test("zsh completes commands, options and their values", needs("zsh"), () => {
    const file = join(tempDir(), "script");
    const fake = `compdef() { : }
  _describe() { print -rl -- \${found%%:*} }
  _files() { : }
  compadd() { shift; print -rl -- "$@" }
  `;
    const ask = `words=(postern "$@"); CURRENT=$#words; _postern`;
    writeFileSync(file, `${fake}${completionScript("zsh", program)}\n${ask}\n`);
    for (const [words, completed] of LINES) {
      const begun = completedBy(pathOf("zsh"), file, words).filter((each) =>
        each.startsWith(words.at(-1) ?? ""),
      );
      const shown = words.at(-1) === "" ? begun.filter((each) => completed.includes(each)) : begun;
      expect([words, shown.sort()]).toEqual([words, completed]);
    }
  });

  test("fish completes commands, options and their values", needs("fish"), () => {
    const file = scriptWith("fish", `complete -C "postern $argv" | string replace -r '\\t.*' ''`);
    for (const [words, completed] of LINES) {
      if (words.at(-1) === "" && completed.length === 0) continue;
      const { stdout } = spawnSync(pathOf("fish"), ["--no-config", file, words.join(" ")], {
        encoding: "utf8",
      });
      const shown = stdout.split("\n").filter((line) => line !== "");
      expect([words, shown.sort()]).toEqual([
        words,
        expect.arrayContaining(completed.filter((each) => !each.startsWith("--help"))),
      ]);
    }
  });
});

test.each(["bash", "zsh", "fish"] as const)(
  "postern completion %s prints the script, which names every command",
  async (shell) => {
    const { code, stdout } = await runHere(["completion", shell]);
    expect(code).toBe(0);
    for (const words of ["failed replay", "endpoints open", "refunds export"])
      expect(stdout).toContain(words);
  },
);
