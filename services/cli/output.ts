import { styleText } from "node:util";
import type { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES, type ErrorCode } from "../../shared/platform/errors/codes.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import type { OutputForm } from "./output-options.ts";
import type { Terminal } from "./terminal.ts";
import { jsonLine, plain } from "./text.ts";

/** The options that every command has. */
export type OutputOptions = { output?: OutputForm; quiet?: boolean };

/** What a word says of what it names. */
export type Tone = "good" | "attention" | "bad" | "faint";

const STYLES = { good: "green", attention: "yellow", bad: "red", faint: "dim" } as const;

/** What a command says, and to whom. */
export type Output = {
  /** The form that was asked for, if it is not the usual one. */
  form(): OutputForm | undefined;
  /** Writes what was asked for to stdout. */
  print(text: string): void;
  /** Writes what people like to know besides to stdout, as headings, counts and what was done. Nothing with -o json, -o name or --quiet. */
  say(text: string): void;
  /** Writes a remark to stderr, at once. Nothing with --quiet. */
  note(text: string): void;
  /**
   * Writes to stderr why the command has not done all. Its text may hold what strangers wrote. With -o json it is kept for the
   * one problem object, which comes at the end.
   */
  printError(problem: string | AppError): void;
  /** Ends the command. With -o json, a code that is not 0 comes with a problem object on stderr. */
  exitWith(code: number): void;
  /** Colours a part of what is printed, where there are colours. */
  paint(tone: Tone | undefined, text: string): string;
};

type Sinks = {
  print: (text: string) => void;
  printError: (text: string) => void;
  exitWith: (code: number) => void;
  terminal: Pick<Terminal, "colours"> | undefined;
};

/** `begin` sets the options of the command that runs, before it says anything. */
export function createOutput({ print, printError, exitWith, terminal }: Sinks): Output & {
  begin(options: OutputOptions): void;
} {
  let { output: form, quiet = false }: OutputOptions = {};
  const isJson = (): boolean => form === "json";
  const problems: string[] = [];
  let code: ErrorCode | undefined;
  const { stdout = false, stderr = false } = terminal?.colours ?? {};
  return {
    begin(options) {
      ({ output: form, quiet = false } = options);
    },
    form: () => form,
    print,
    say(text) {
      if (form !== "json" && form !== "name" && !quiet) print(text);
    },
    note(text) {
      if (!quiet) printError(safe(text));
    },
    printError(problem) {
      const text = typeof problem === "string" ? problem : `${problem.message}\n`;
      if (!isJson()) return printError(coloured(safe(text), stderr));
      problems.push(text);
      if (typeof problem !== "string" && problem.code !== "internal.unexpected") code ??= problem.code;
    },
    exitWith(exit) {
      const detail = problems
        .splice(0)
        .join("")
        .replace(/^error: /, "")
        .trimEnd();
      if (isJson() && exit !== EXIT.ok)
        printError(jsonLine(problemOf(code ?? CODE_OF_EXIT[exit], detail, exit)));
      else if (detail !== "") printError(safe(`${detail}\n`));
      exitWith(exit);
    },
    paint: (tone, text) => (stdout ? inTone(tone, text) : text),
  };
}

const CODE_OF_EXIT: Record<number, ErrorCode> = {
  [EXIT.usage]: "command.invalid",
  [EXIT.config]: "start.config_invalid",
};

/** As a problem document of the gateways (RFC 9457), with the exit code in place of a status. */
function problemOf(code: ErrorCode = "command.failed", detail: string, exit: number) {
  const { title } = CODES[code];
  const type = `urn:postern:problem:${code}`;
  return { type, title, detail: detail === "" ? title : detail, code, exit_code: exit };
}

/** Each line without what would control a terminal. */
function safe(text: string): string {
  return text.split("\n").map(plain).join("\n");
}

/** The first line of a problem. A warning is none. */
function coloured(text: string, colours: boolean): string {
  if (!colours) return text;
  return text.replace(/^.+/, (line) => inTone(line.startsWith("warning: ") ? "attention" : "bad", line));
}

function inTone(tone: Tone | undefined, text: string): string {
  return tone === undefined ? text : styleText(STYLES[tone], text, { validateStream: false });
}
