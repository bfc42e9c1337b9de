import { styleText } from "node:util";
import type { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES, type ErrorCode } from "../../shared/platform/errors/codes.ts";
import { EXIT } from "../../shared/platform/lifecycle/run-service.ts";
import type { OutputForm } from "./output-options.ts";
import type { Terminal } from "./terminal.ts";
import { jsonLine, plain } from "./text.ts";

/** The options that every command has. */
export type OutputOptions = { output?: OutputForm; quiet?: boolean };

/** Meaning of a part of the output, such as good news or an error. It determines the colour. */
export type Tone = "good" | "attention" | "bad" | "faint";

const STYLES = { good: "green", attention: "yellow", bad: "red", faint: "dim" } as const;

/** Writes the output of a command to stdout and stderr. */
export type Output = {
  /** The requested output format; undefined for the default. */
  form(): OutputForm | undefined;
  /** Writes the requested data to stdout. */
  print(text: string): void;
  /**
   * Writes additional information for people to stdout: headings, counts and what was done. Writes nothing with -o
   * json, -o name or --quiet.
   */
  say(text: string): void;
  /** Writes a remark to stderr at once. Writes nothing with --quiet. */
  note(text: string): void;
  /**
   * Writes to stderr why the command failed or did only a part. Removes control characters, because the text may
   * contain input from strangers, such as a sender's header. With -o json, `exitWith` writes the text later, in the
   * problem object.
   */
  printError(problem: string | AppError): void;
  /**
   * Sets the exit code at the end of the command. With -o json and an exit code other than 0, first writes a problem
   * object to stderr, with the texts of `printError`.
   */
  exitWith(code: number): void;
  /** Colours a part of the output, if the output has colours. */
  paint(tone: Tone | undefined, text: string): string;
};

type Sinks = {
  print: (text: string) => void;
  printError: (text: string) => void;
  exitWith: (code: number) => void;
  terminal: Pick<Terminal, "colours"> | undefined;
};

/** Creates the output. `begin` sets the options of the running command, before it writes anything. */
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

/**
 * Makes a problem object like those in error answers of the gateways (RFC 9457). It has the exit code instead of an
 * HTTP status.
 */
function problemOf(code: ErrorCode = "command.failed", detail: string, exit: number) {
  const { title } = CODES[code];
  const type = `urn:postern:problem:${code}`;
  return { type, title, detail: detail === "" ? title : detail, code, exit_code: exit };
}

/** Removes control characters of terminals from each line. */
function safe(text: string): string {
  return text.split("\n").map(plain).join("\n");
}

/** Colours the first line of a problem, as a warning or as an error. */
function coloured(text: string, colours: boolean): string {
  if (!colours) return text;
  return text.replace(/^.+/, (line) => inTone(line.startsWith("warning: ") ? "attention" : "bad", line));
}

function inTone(tone: Tone | undefined, text: string): string {
  return tone === undefined ? text : styleText(STYLES[tone], text, { validateStream: false });
}
