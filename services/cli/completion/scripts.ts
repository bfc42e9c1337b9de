import type { Command, Option } from "commander";
import { shellQuote } from "../../../shared/platform/text/shell-quote.ts";

export type Shell = "bash" | "zsh" | "fish";

/** Returns the script with which a shell completes the command lines of a program. */
export function completionScript(shell: Shell, program: Command): string {
  return SCRIPTS[shell](entriesOf(program));
}

const SCRIPTS: Record<Shell, (entries: readonly Entry[]) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

type Word = { word: string; short?: string; says: string };
type Value = { flag: string; choices: readonly string[]; isFile: boolean };

/** A command and the words that can follow it. `path` is empty for the program itself. */
type Entry = { path: string; words: readonly Word[]; values: readonly Value[] };

function entriesOf(command: Command, path = ""): Entry[] {
  const { options, commands, registeredArguments } = command;
  const below = commands.map((each) => ({ word: each.name(), says: each.description() }));
  const choices = registeredArguments.flatMap(({ argChoices = [], description }) =>
    argChoices.map((word) => ({ word, says: description })),
  );
  const flags = options.flatMap(({ long, short, description }) =>
    long == null ? [] : [{ word: long, ...(short != null && { short }), says: description }],
  );
  const own = {
    path,
    words: [...below, ...choices, ...flags, { word: "--help", says: "display help for command" }],
    values: options.flatMap(valuesOf),
  };
  return [own, ...commands.flatMap((each) => entriesOf(each, `${path} ${each.name()}`.trim()))];
}

/** Returns the values that can follow an option: one entry for its short name and one for its long name. */
function valuesOf({ long, short, required, argChoices = [], flags }: Option): Value[] {
  if (!required) return [];
  const names = [short, long].filter((name) => name != null);
  return names.map((flag) => ({ flag, choices: argChoices, isFile: /<(file|dir)>/.test(flags) }));
}

/**
 * Returns a shell loop that finds out which command the user is typing. It joins the words of the command line that are
 * names of commands, such as `calls list`, in the variable `at`.
 */
function walk(entries: readonly Entry[], each: string, word: string): string {
  const paths = entries.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`);
  return `  for ${each}; do
    case "\${at:+$at }${word}" in
      ${paths.join(" | ")}) at="\${at:+$at }${word}" ;;
    esac
  done`;
}

function cases(lines: readonly (readonly [string, string])[]): string {
  return lines.map(([pattern, act]) => `    ${shellQuote(pattern)}) ${act} ;;`).join("\n");
}

function bashScript(entries: readonly Entry[]): string {
  const values = entries.flatMap(({ path, values: own }) =>
    own.map(({ flag, choices, isFile }): [string, string] => [
      `${path} ${flag}`,
      isFile ? "compopt -o default 2>/dev/null; return" : `words=${shellQuote(choices.join(" "))}`,
    ]),
  );
  const words = entries.map(({ path, words: own }): [string, string] => [
    path,
    `words=${shellQuote(own.map(({ word }) => word).join(" "))}`,
  ]);
  return `# bash completion of postern
_postern() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} at= words= i
  COMPREPLY=()
${walk(entries, "((i = 1; i < COMP_CWORD; i++))", `\${COMP_WORDS[i]}`)}
  case "$at $before" in
${cases(values)}
    *)
      case "$at" in
${cases(words)}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _postern postern
`;
}

function zshScript(entries: readonly Entry[]): string {
  const values = entries.flatMap(({ path, values: own }) =>
    own.map(({ flag, choices, isFile }): [string, string] => [
      `${path} ${flag}`,
      isFile ? "_files; return" : `compadd -- ${choices.map(shellQuote).join(" ")}; return`,
    ]),
  );
  const words = entries.map(({ path, words: own }): [string, string] => [
    path,
    `found=(${own.map(({ word, says }) => shellQuote(`${word}:${says.replaceAll(":", "\\:")}`)).join(" ")})`,
  ]);
  return `#compdef postern
# zsh completion of postern
_postern() {
  local before=\${words[CURRENT - 1]} at= i
  local -a found
${walk(entries, "((i = 2; i < CURRENT; i++))", `\${words[i]}`)}
  case "$at $before" in
${cases(values)}
  esac
  case "$at" in
${cases(words)}
  esac
  _describe postern found
}
compdef _postern postern
`;
}

function fishScript(entries: readonly Entry[]): string {
  const paths = entries.filter(({ path }) => path !== "").map(({ path }) => shellQuote(path));
  const lines = entries.flatMap(({ path, words, values }) => {
    const at = `complete -c postern -f -n ${shellQuote(`__postern_at ${shellQuote(path)}`)}`;
    return words.map(({ word, short, says }) => {
      const value = values.find(({ flag }) => flag === word);
      const offered = value?.isFile ? " -rF" : value && ` -x -a ${shellQuote(value.choices.join(" "))}`;
      const named = word.startsWith("--")
        ? `-l ${word.slice(2)}${short === undefined ? "" : ` -s ${short.slice(1)}`}${offered ?? ""}`
        : `-a ${word}`;
      return `${at} ${named} -d ${shellQuote(says)}`;
    });
  });
  return `# fish completion of postern
function __postern_at
  set -l at
  for word in (commandline -opc)[2..]
    if contains -- (string join ' ' $at $word) ${paths.join(" ")}
      set -a at $word
    end
  end
  set -l joined (string join ' ' $at)
  test "$joined" = "$argv"
end
${lines.join("\n")}
`;
}
